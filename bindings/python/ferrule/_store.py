"""How the native library uses a key-value store of Python's: torch's Store, or anything with set and get."""

import time

_POLL_S = 0.005


def put(store, key: str, value: bytes) -> None:
    """Stores the value."""
    store.set(key, value)


def _look(store, key: str):
    """The key's value if it exists now, else None."""
    check = getattr(store, "check", None)
    if check is not None and not check([key]):  # torch's get() would wait
        return None
    try:
        return store.get(key)
    except KeyError:
        return None


def fetch(store, key: str, timeout_s: float) -> bytes | None:
    """The key's value, as soon as it exists; None if it does not within the timeout.

    The store is polled, which keeps the timeout ours and lets Ctrl-C in. So get() must not wait for a key: it returns None
    or raises KeyError, or the store has check(keys), as torch's have.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        value = _look(store, key)
        if value is not None:
            return value.encode() if isinstance(value, str) else bytes(value)
        left = deadline - time.monotonic()
        if left <= 0:
            return None
        time.sleep(min(_POLL_S, left))
