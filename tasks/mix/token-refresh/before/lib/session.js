'use strict';

/** Holds the access token of one login. `login()` asks the login service and resolves to `{ token, expiresAt }`. */
class Session {
  constructor(login, now = Date.now) {
    this.login = login;
    this.now = now;
    this.current = null;
    this.fetching = null;
  }

  /** A token that has not expired. */
  async token() {
    if (this.current && this.now() < this.current.expiresAt) {
      return this.current.token;
    }
    this.fetching = this.login();
    this.current = await this.fetching;
    return this.current.token;
  }

  /** A request that was sent with a token came back with 401. */
  reject() {
    this.current = null;
  }

  /** Forgets the login; the next request starts a new one. */
  logout() {
    this.current = null;
  }
}

module.exports = { Session };
