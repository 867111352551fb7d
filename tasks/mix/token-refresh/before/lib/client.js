'use strict';

/** Requests to the parcel service. `send(path, token)` resolves to `{ status, body }`. */
class Client {
  constructor(session, send) {
    this.session = session;
    this.send = send;
  }

  /** The body of an answer; a token that is not accepted is replaced once. */
  async get(path) {
    let answer = await this.send(path, await this.session.token());
    if (answer.status === 401) {
      this.session.reject();
      answer = await this.send(path, await this.session.token());
    }
    if (answer.status !== 200) {
      throw new Error(`${path}: status ${answer.status}`);
    }
    return answer.body;
  }
}

module.exports = { Client };
