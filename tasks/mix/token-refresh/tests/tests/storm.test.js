'use strict';
// The solution runs in a process of its own, behind /run/appliance/subject; only text comes back.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const test = require('node:test');

// A play: each step is done when everything that the one before set going has come to rest.
//   get NAME             a request, whose end is told
//   login TOKEN          the login service answers its oldest open question, with a token that is good for 100
//   refuse               it fails instead
//   late TOKEN           it answers its newest open question
//   answer NAME STATUS   the parcel service answers a request
//   clock N, logout
const DRIVER = `
const { Session } = require(process.cwd() + '/lib/session.js');
const { Client } = require(process.cwd() + '/lib/client.js');
let clock = 0;
const logins = [];
const requests = new Map();
const session = new Session(() => new Promise((resolve, reject) => {
  console.log('  asks for a token');
  logins.push({ resolve, reject });
}), () => clock);
const client = new Client(session, (path, token) => new Promise((resolve) => {
  console.log('  sends ' + path + ' with ' + token);
  requests.set(path, resolve);
}));
const acts = {
  get: (name) => {
    client.get(name).then((body) => console.log('  ' + name + ' has ' + body), (error) => console.log('  ' + name + ' failed: ' + error.message));
  },
  login: (token) => logins.shift().resolve({ token, expiresAt: clock + 100 }),
  late: (token) => logins.pop().resolve({ token, expiresAt: clock + 100 }),
  refuse: () => logins.shift().reject(new Error('no login')),
  answer: (name, status) => requests.get(name)({ status: Number(status), body: 'a body' }),
  clock: (at) => { clock = Number(at); },
  logout: () => session.logout(),
};
(async () => {
  for (const step of JSON.parse(require('node:fs').readFileSync(0, 'utf8'))) {
    console.log(step);
    const [verb, ...words] = step.split(' ');
    acts[verb](...words);
    for (let turn = 0; turn < 10; turn += 1) {
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
})();
`;

/** What happened in each step; what happened in the same step stands in alphabetical order. */
function play(...steps) {
  const done = spawnSync('/run/appliance/subject', ['node', '-e', DRIVER], {
    input: JSON.stringify(steps),
    encoding: 'utf8',
    timeout: 30000,
  });
  assert.equal(done.status, 0, done.stderr);
  return done.stdout.split(/\n(?! )/).slice(0, -1).flatMap((step) => {
    const [name, ...events] = step.split('\n');
    return [name, ...events.sort()];
  });
}

test('requests at the same time share one login', () => {
  const seen = play('get /a', 'get /b', 'get /c', 'login T1', 'answer /a 200', 'answer /b 200', 'answer /c 200', 'clock 100', 'get /d', 'get /e', 'login T2');
  assert.deepEqual(seen, [
    'get /a', '  asks for a token',
    'get /b',
    'get /c',
    'login T1', '  sends /a with T1', '  sends /b with T1', '  sends /c with T1',
    'answer /a 200', '  /a has a body',
    'answer /b 200', '  /b has a body',
    'answer /c 200', '  /c has a body',
    'clock 100',
    'get /d', '  asks for a token',
    'get /e',
    'login T2', '  sends /d with T2', '  sends /e with T2',
  ]);
});

test('tokens that were turned down together are replaced once', () => {
  const seen = play('get /a', 'login T1', 'get /b', 'answer /a 401', 'answer /b 401', 'login T2', 'answer /a 200', 'answer /b 200');
  assert.deepEqual(seen, [
    'get /a', '  asks for a token',
    'login T1', '  sends /a with T1',
    'get /b', '  sends /b with T1',
    'answer /a 401', '  asks for a token',
    'answer /b 401',
    'login T2', '  sends /a with T2', '  sends /b with T2',
    'answer /a 200', '  /a has a body',
    'answer /b 200', '  /b has a body',
  ]);
});

test('a late 401 does not take away the next token', () => {
  const seen = play('get /a', 'login T1', 'get /b', 'answer /a 401', 'login T2', 'answer /b 401', 'answer /a 200', 'answer /b 200', 'get /c');
  assert.deepEqual(seen, [
    'get /a', '  asks for a token',
    'login T1', '  sends /a with T1',
    'get /b', '  sends /b with T1',
    'answer /a 401', '  asks for a token',
    'login T2', '  sends /a with T2',
    'answer /b 401', '  sends /b with T2',
    'answer /a 200', '  /a has a body',
    'answer /b 200', '  /b has a body',
    'get /c', '  sends /c with T2',
  ]);
});

test('a login that failed fails those who waited and nobody else', () => {
  const seen = play('get /a', 'get /b', 'refuse', 'get /c', 'login T1', 'answer /c 200');
  assert.deepEqual(seen, [
    'get /a', '  asks for a token',
    'get /b',
    'refuse', '  /a failed: no login', '  /b failed: no login',
    'get /c', '  asks for a token',
    'login T1', '  sends /c with T1',
    'answer /c 200', '  /c has a body',
  ]);
});

test('after a logout no older login comes back', () => {
  const seen = play('get /a', 'logout', 'get /b', 'late NEW', 'login OLD', 'get /c');
  assert.deepEqual(seen, [
    'get /a', '  asks for a token',
    'logout',
    'get /b', '  asks for a token',
    'late NEW', '  sends /b with NEW',
    'login OLD', '  sends /a with OLD',
    'get /c', '  sends /c with NEW',
  ]);
});

test('a login from before a logout is not shared with those who come after it', () => {
  const seen = play('get /a', 'logout', 'login OLD', 'get /b', 'get /c', 'login NEW');
  assert.deepEqual(seen, [
    'get /a', '  asks for a token',
    'logout',
    'login OLD', '  sends /a with OLD',
    'get /b', '  asks for a token',
    'get /c',
    'login NEW', '  sends /b with NEW', '  sends /c with NEW',
  ]);
});

test('a failed login of before a logout does not disturb the next one', () => {
  const seen = play('get /a', 'logout', 'get /b', 'refuse', 'get /c', 'login NEW');
  assert.deepEqual(seen, [
    'get /a', '  asks for a token',
    'logout',
    'get /b', '  asks for a token',
    'refuse', '  /a failed: no login',
    'get /c',
    'login NEW', '  sends /b with NEW', '  sends /c with NEW',
  ]);
});

test('one request after the other', () => {
  const seen = play('get /a', 'login T1', 'answer /a 200', 'get /b', 'answer /b 404', 'get /c', 'answer /c 401', 'login T2', 'answer /c 401');
  assert.deepEqual(seen, [
    'get /a', '  asks for a token',
    'login T1', '  sends /a with T1',
    'answer /a 200', '  /a has a body',
    'get /b', '  sends /b with T1',
    'answer /b 404', '  /b failed: /b: status 404',
    'get /c', '  sends /c with T1',
    'answer /c 401', '  asks for a token',
    'login T2', '  sends /c with T2',
    'answer /c 401', '  /c failed: /c: status 401',
  ]);
});

test('a logout asks for a new login', () => {
  const seen = play('get /a', 'login T1', 'answer /a 200', 'logout', 'get /b', 'login T2', 'answer /b 200');
  assert.deepEqual(seen, [
    'get /a', '  asks for a token',
    'login T1', '  sends /a with T1',
    'answer /a 200', '  /a has a body',
    'logout',
    'get /b', '  asks for a token',
    'login T2', '  sends /b with T2',
    'answer /b 200', '  /b has a body',
  ]);
});
