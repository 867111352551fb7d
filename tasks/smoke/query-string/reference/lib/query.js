'use strict';

function decode(text) {
  const spaced = text.replaceAll('+', ' ');
  try {
    return decodeURIComponent(spaced);
  } catch {
    return spaced.replace(/(?:%[0-9a-f]{2})+/gi, (escapes) => {
      try {
        return decodeURIComponent(escapes);
      } catch {
        return escapes;
      }
    });
  }
}

/** The parameters of a query string, with or without its question mark; a repeated key has all its values. */
function parseQuery(text) {
  const found = {};
  for (const pair of text.replace(/^\?/, '').split('&')) {
    if (pair === '') {
      continue;
    }
    const at = pair.indexOf('=');
    const key = decode(at < 0 ? pair : pair.slice(0, at));
    const value = at < 0 ? '' : decode(pair.slice(at + 1));
    found[key] = Object.hasOwn(found, key) ? [].concat(found[key], value) : value;
  }
  return found;
}

function formatQuery(parameters) {
  return Object.entries(parameters)
    .flatMap(([key, values]) => [].concat(values).map((value) => `${encodeURIComponent(key)}=${encodeURIComponent(value)}`))
    .join('&');
}

module.exports = { parseQuery, formatQuery };
