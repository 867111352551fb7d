'use strict';

const { parse, TemplateError } = require('./parse');
const { escape, lookUp, isTrue, asText } = require('./values');

function write(nodes, values) {
  return nodes.map((node) => writeOne(node, values)).join('');
}

function writeOne(node, values) {
  switch (node.kind) {
    case 'text':
      return node.words[0];
    case 'raw':
      return asText(lookUp(values, node.words[0]));
    case 'value':
      return escape(asText(lookUp(values, node.words[0])));
    case 'if':
      return write(isTrue(lookUp(values, node.words[0])) ? node.body : node.otherwise, values);
    default: {
      const [item, list] = node.words;
      const entries = lookUp(values, list) ?? [];
      return entries.map((entry) => write(node.body, { ...values, [item]: entry })).join('');
    }
  }
}

/** The text of a template with these values. */
function render(template, values) {
  return write(parse(template), values);
}

module.exports = { render, TemplateError };
