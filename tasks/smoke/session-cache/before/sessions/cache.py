"""A bounded store of sessions by id."""


class SessionCache:
    def __init__(self, limit):
        if limit < 1:
            raise ValueError("limit must be at least 1")
        self.limit = limit
        self._sessions = {}

    def __len__(self):
        return len(self._sessions)

    def __contains__(self, session_id):
        return session_id in self._sessions

    def get(self, session_id, default=None):
        return self._sessions.get(session_id, default)

    def put(self, session_id, session):
        if len(self._sessions) >= self.limit:
            oldest = next(iter(self._sessions))
            del self._sessions[oldest]
        self._sessions[session_id] = session

    def ids(self):
        """Ids from the one that will be dropped next to the one used last."""
        return list(self._sessions)
