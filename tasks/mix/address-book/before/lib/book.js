'use strict';

const { parseCsv, formatCsv } = require('./csv');

/** The people in a CSV text whose first row names the columns. */
function readBook(text) {
  const [columns, ...rows] = parseCsv(text);
  return rows.map((row) => Object.fromEntries(columns.map((column, index) => [column, row[index] ?? ''])));
}

function writeBook(columns, people) {
  return formatCsv([columns, ...people.map((person) => columns.map((column) => person[column] ?? ''))]);
}

/** Both books in one, those of the second replacing people of the same e-mail address in the first. */
function mergeBooks(first, second) {
  const columns = parseCsv(first)[0];
  const people = new Map(readBook(first).map((person) => [person.email, person]));
  for (const person of readBook(second)) {
    people.set(person.email, person);
  }
  return writeBook(columns, [...people.values()]);
}

module.exports = { readBook, writeBook, mergeBooks };
