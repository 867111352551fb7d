'use strict';

/** The rows of a CSV text, each an array of its fields. */
function parseCsv(text) {
  const rows = [];
  let row = [];
  let at = 0;
  const field = () => {
    if (text[at] !== '"') {
      const start = at;
      while (at < text.length && text[at] !== ',' && text[at] !== '\n' && !text.startsWith('\r\n', at)) {
        at += 1;
      }
      return text.slice(start, at);
    }
    let value = '';
    for (at += 1; at < text.length; at += 1) {
      if (text[at] !== '"') {
        value += text[at];
      } else if (text[at + 1] === '"') {
        value += '"';
        at += 1;
      } else {
        at += 1;
        break;
      }
    }
    return value;
  };
  while (at < text.length) {
    const start = at;
    row.push(field());
    if (text[at] === ',') {
      at += 1;
      if (at < text.length) {
        continue;
      }
      row.push('');
    }
    const blank = row.length === 1 && at === start;
    if (!blank) {
      rows.push(row);
    }
    row = [];
    at += text.startsWith('\r\n', at) ? 2 : 1;
  }
  return rows;
}

function formatField(field) {
  return /[",\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field;
}

/** One line of CSV for each row, each with its line feed. */
function formatCsv(rows) {
  return rows.map((fields) => `${fields.map(formatField).join(',')}\n`).join('');
}

module.exports = { parseCsv, formatCsv };
