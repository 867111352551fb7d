'use strict';

/** The parameters of a query string, with or without its question mark. */
function parseQuery(text) {
  const query = decodeURIComponent(text.replace(/^\?/, ''));
  const found = {};
  for (const pair of query.split('&')) {
    if (pair === '') {
      continue;
    }
    const [key, value] = pair.split('=');
    found[key] = value ?? '';
  }
  return found;
}

function formatQuery(parameters) {
  return Object.entries(parameters)
    .map(([key, value]) => `${encodeURIComponent(key)}=${encodeURIComponent(value)}`)
    .join('&');
}

module.exports = { parseQuery, formatQuery };
