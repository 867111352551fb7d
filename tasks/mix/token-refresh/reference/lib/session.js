'use strict';

/** Holds the access token of one login. `login()` asks the login service and resolves to `{ token, expiresAt }`. */
class Session {
  constructor(login, now = Date.now) {
    this.login = login;
    this.now = now;
    this.current = null;
    this.fetching = null;
  }

  /** A token that has not expired; whoever asks while one is being fetched waits for that one. */
  async token() {
    if (this.current && this.now() < this.current.expiresAt) {
      return this.current.token;
    }
    if (!this.fetching) {
      this.fetch();
    }
    return (await this.fetching).token;
  }

  fetch() {
    const mine = this.login();
    this.fetching = mine;
    const done = (fetched) => {
      if (this.fetching === mine) {
        this.current = fetched;
        this.fetching = null;
      }
    };
    mine.then(done, () => done(null));
  }

  /** A request that was sent with `token` came back with 401. */
  reject(token) {
    if (this.current && this.current.token === token) {
      this.current = null;
    }
  }

  /** Forgets the login, and the one that is under way; the next request starts a new one. */
  logout() {
    this.current = null;
    this.fetching = null;
  }
}

module.exports = { Session };
