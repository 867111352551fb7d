'use strict';
// The solution runs in a process of its own, behind /run/appliance/subject; only text comes back.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const test = require('node:test');

const DRIVER = `
const { summarize } = require(process.cwd() + '/stats.js');
for (const samples of JSON.parse(require('node:fs').readFileSync(0, 'utf8'))) {
  console.log(JSON.stringify(summarize(samples)) + ' ' + JSON.stringify(samples));
}
`;

function summaries(...lists) {
  const done = spawnSync('/run/appliance/subject', ['node', '-e', DRIVER], {
    input: JSON.stringify(lists),
    encoding: 'utf8',
    timeout: 30000,
  });
  assert.equal(done.status, 0, done.stderr);
  return done.stdout;
}

test('samples are ordered as numbers', () => {
  assert.equal(
    summaries([7, 9, 10, 25, 100], [1000, 2, 30]).replaceAll(/ \[.*\]/g, ''),
    '{"count":5,"mean":30.2,"min":7,"median":10,"p95":100,"max":100}\n' +
      '{"count":3,"mean":344,"min":2,"median":30,"p95":1000,"max":1000}\n',
  );
});

test('the samples of the caller stay in their order', () => {
  assert.equal(
    summaries([30, 10, 20]),
    '{"count":3,"mean":20,"min":10,"median":20,"p95":30,"max":30} [30,10,20]\n',
  );
});

test('negative numbers and fractions are ordered too', () => {
  assert.equal(
    summaries([-2.5, 1e-7, -10, 3], [0.5, 100, 20.25]).replaceAll(/ \[.*\]/g, ''),
    '{"count":4,"mean":-2.374999975,"min":-10,"median":-2.5,"p95":3,"max":3}\n' +
      '{"count":3,"mean":40.25,"min":0.5,"median":20.25,"p95":100,"max":100}\n',
  );
});

test('no samples, no summary', () => {
  assert.equal(summaries([]), 'null []\n');
});

test('one sample is every percentile', () => {
  assert.equal(summaries([12.5]), '{"count":1,"mean":12.5,"min":12.5,"median":12.5,"p95":12.5,"max":12.5} [12.5]\n');
});

test('samples of equal length in order', () => {
  assert.equal(summaries([11, 12, 13, 14]), '{"count":4,"mean":12.5,"min":11,"median":12,"p95":14,"max":14} [11,12,13,14]\n');
});

test('p95 of a hundred samples is the 95th', () => {
  const samples = Array.from({ length: 100 }, (_, index) => 100 + index);
  assert.equal(summaries(samples).split(' ')[0], '{"count":100,"mean":149.5,"min":100,"median":149,"p95":194,"max":199}');
});
