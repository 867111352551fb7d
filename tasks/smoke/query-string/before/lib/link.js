'use strict';

const { parseQuery, formatQuery } = require('./query');

/** The link with one more parameter, before its fragment. */
function addParameter(link, key, value) {
  const [beforeFragment, ...fragment] = link.split('#');
  const at = beforeFragment.indexOf('?');
  const path = at < 0 ? beforeFragment : beforeFragment.slice(0, at);
  const parameters = at < 0 ? {} : parseQuery(beforeFragment.slice(at));
  parameters[key] = value;
  const tail = fragment.length ? `#${fragment.join('#')}` : '';
  return `${path}?${formatQuery(parameters)}${tail}`;
}

module.exports = { addParameter };
