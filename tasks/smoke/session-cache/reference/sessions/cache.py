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
        if session_id not in self._sessions:
            return default
        session = self._sessions.pop(session_id)
        self._sessions[session_id] = session
        return session

    def put(self, session_id, session):
        self._sessions.pop(session_id, None)
        if len(self._sessions) >= self.limit:
            oldest = next(iter(self._sessions))
            del self._sessions[oldest]
        self._sessions[session_id] = session

    def ids(self):
        """Ids from the one that will be dropped next to the one used last."""
        return list(self._sessions)
