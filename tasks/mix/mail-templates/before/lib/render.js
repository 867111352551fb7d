'use strict';

const { escape, lookUp, isTrue, asText } = require('./values');

class TemplateError extends Error {}

const FOR = /\[% for (\w+) in ([\w.]+) %\](.*?)\[% end %\]/s;
const IF = /\[% if ([\w.]+) %\](.*?)(?:\[% else %\](.*?))?\[% end %\]/s;
const RAW = /\[% raw ([\w.]+) %\]/;
const VALUE = /\[% ([\w.]+) %\]/;

/** The text of a template with these values. */
function render(template, values) {
  let text = template;
  let found;
  while ((found = FOR.exec(text))) {
    const [whole, item, list, body] = found;
    const entries = lookUp(values, list) ?? [];
    text = text.replace(whole, entries.map((entry) => render(body, { ...values, [item]: entry })).join(''));
  }
  while ((found = IF.exec(text))) {
    const [whole, name, yes, no] = found;
    text = text.replace(whole, isTrue(lookUp(values, name)) ? yes : (no ?? ''));
  }
  while ((found = RAW.exec(text))) {
    text = text.replace(found[0], asText(lookUp(values, found[1])));
  }
  while ((found = VALUE.exec(text))) {
    text = text.replace(found[0], escape(asText(lookUp(values, found[1]))));
  }
  if (text.includes('[%')) {
    throw new TemplateError('what is this? ' + text.slice(text.indexOf('[%')).split('\n')[0]);
  }
  return text;
}

module.exports = { render, TemplateError };
