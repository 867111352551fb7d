'use strict';

class TemplateError extends Error {}

const TAG = /\[%(.*?)%\]/gs;
const NAME = '[A-Za-z_]\\w*(?:\\.\\w+)*';
const FORMS = [
  ['for', new RegExp(`^for (\\w+) in (${NAME})$`)],
  ['if', new RegExp(`^if (${NAME})$`)],
  ['else', /^else$/],
  ['end', /^end$/],
  ['raw', new RegExp(`^raw (${NAME})$`)],
  ['value', new RegExp(`^(${NAME})$`)],
];

/** The pieces of a template in order: `{ kind, words, line }`, a text's only word being the text. */
function pieces(template) {
  const found = [];
  let line = 1;
  let at = 0;
  const text = (until) => {
    const plain = template.slice(at, until);
    const open = plain.indexOf('[%');
    if (open >= 0) {
      const where = line + plain.slice(0, open).split('\n').length - 1;
      throw new TemplateError(`line ${where}: what is this? ${plain.slice(open).split('\n')[0]}`);
    }
    found.push({ kind: 'text', words: [plain], line });
    line += plain.split('\n').length - 1;
  };
  for (const tag of template.matchAll(TAG)) {
    text(tag.index);
    const inside = tag[1].trim();
    const form = FORMS.find(([, pattern]) => pattern.test(inside));
    if (!form) {
      throw new TemplateError(`line ${line}: what is this? ${tag[0].split('\n')[0]}`);
    }
    found.push({ kind: form[0], words: form[1].exec(inside).slice(1), line });
    line += tag[0].split('\n').length - 1;
    at = tag.index + tag[0].length;
  }
  text(template.length);
  return found;
}

/** The template as a tree: blocks have `body`, an if also `otherwise`. */
function parse(template) {
  const root = { body: [] };
  const open = [{ node: root, into: root.body }];
  for (const piece of pieces(template)) {
    const inner = open.at(-1);
    if (piece.kind === 'for' || piece.kind === 'if') {
      const node = { ...piece, body: [], otherwise: [] };
      inner.into.push(node);
      open.push({ node, into: node.body });
    } else if (piece.kind === 'else') {
      if (inner.node.kind !== 'if' || inner.into === inner.node.otherwise) {
        throw new TemplateError(`line ${piece.line}: else without if`);
      }
      inner.into = inner.node.otherwise;
    } else if (piece.kind === 'end') {
      if (inner.node === root) {
        throw new TemplateError(`line ${piece.line}: end without if or for`);
      }
      open.pop();
    } else {
      inner.into.push(piece);
    }
  }
  const { node } = open.at(-1);
  if (node !== root) {
    throw new TemplateError(`line ${node.line}: ${node.kind} without end`);
  }
  return root.body;
}

module.exports = { parse, TemplateError };
