// sessions
