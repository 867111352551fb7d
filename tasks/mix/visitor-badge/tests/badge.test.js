'use strict';
// The solution runs in a process of its own, behind /run/appliance/subject; only text comes back.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const test = require('node:test');

const DRIVER = `
const { badge } = require(process.cwd() + '/badge.js');
for (const words of JSON.parse(require('node:fs').readFileSync(0, 'utf8'))) {
  console.log(JSON.stringify(badge(...words)));
}
`;

function badges(...people) {
  const done = spawnSync('/run/appliance/subject', ['node', '-e', DRIVER], {
    input: JSON.stringify(people),
    encoding: 'utf8',
    timeout: 30000,
  });
  assert.equal(done.status, 0, done.stderr);
  return done.stdout;
}

test('a badge says visitor', () => {
  assert.equal(badges(['Ada Byron', 'Engines Ltd']), '"VISITOR\\nADA BYRON\\nof Engines Ltd"\n');
});

test('a badge without a company has two lines', () => {
  assert.equal(badges(['Bo'], ['Cy', '']), '"VISITOR\\nBO"\n"VISITOR\\nCY"\n');
});

test('names in capitals below the first line', () => {
  assert.equal(
    badges(['Zoë'], ['li wei', 'Tea & Co']).replaceAll(/^"[A-Z]+/gm, '"'),
    '"\\nZOË"\n"\\nLI WEI\\nof Tea & Co"\n',
  );
});
