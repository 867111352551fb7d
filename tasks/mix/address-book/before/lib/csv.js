'use strict';

/** The rows of a CSV text, each an array of its fields. */
function parseCsv(text) {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.split(',').map((field) => field.replace(/^"|"$/g, '')));
}

/** One line of CSV for each row, each with its line feed. */
function formatCsv(rows) {
  return rows.map((fields) => `${fields.map((field) => (field.includes(',') ? `"${field}"` : field)).join(',')}\n`).join('');
}

module.exports = { parseCsv, formatCsv };
