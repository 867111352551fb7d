'use strict';
// The solution runs in a process of its own, behind /run/appliance/subject; only text comes back.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const test = require('node:test');

const DRIVER = `
const { Session } = require(process.cwd() + '/lib/session.js');
const { Client } = require(process.cwd() + '/lib/client.js');
let clock = 0;
let logins = 0;
const session = new Session(async () => ({ token: 'token ' + ++logins, expiresAt: clock + 100 }), () => clock);
const client = new Client(session, async (path, token) => ({ status: 200, body: path + ' with ' + token }));
(async () => {
  for (const at of JSON.parse(require('node:fs').readFileSync(0, 'utf8'))) {
    clock = at;
    console.log(at + ': ' + await client.get('/parcels'));
  }
})();
`;

function bodies(...times) {
  const done = spawnSync('/run/appliance/subject', ['node', '-e', DRIVER], {
    input: JSON.stringify(times),
    encoding: 'utf8',
    timeout: 30000,
  });
  assert.equal(done.status, 0, done.stderr);
  return done.stdout;
}

test('a token is used until it expires', () => {
  assert.equal(
    bodies(0, 1, 99, 100, 150, 200),
    '0: /parcels with token 1\n1: /parcels with token 1\n99: /parcels with token 1\n' +
      '100: /parcels with token 2\n150: /parcels with token 2\n200: /parcels with token 3\n',
  );
});
