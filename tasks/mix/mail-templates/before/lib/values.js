'use strict';

const ESCAPES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function escape(text) {
  return text.replace(/[&<>"]/g, (character) => ESCAPES[character]);
}

/** The value of a dotted name, undefined where there is none. */
function lookUp(values, name) {
  return name.split('.').reduce((value, key) => (value === undefined || value === null ? undefined : value[key]), values);
}

function isTrue(value) {
  return Array.isArray(value) ? value.length > 0 : Boolean(value);
}

function asText(value) {
  return value === undefined || value === null ? '' : String(value);
}

module.exports = { escape, lookUp, isTrue, asText };
