"""How the native library uses a key-value store of Python's: torch's Store, or anything with set and get."""

import time

_POLL_S = 0.01


def put(store, key: str, value: bytes) -> None:
    """Stores the value."""
    store.set(key, value)


def fetch(store, key: str, timeout_s: float) -> bytes | None:
    """The key's value, as soon as it exists; None if it does not within the timeout.

    A store with check(keys), as torch's have, is polled: that keeps the timeout ours, and Ctrl-C works. Any other store's
    get() must wait until the key exists.
    """
    check = getattr(store, "check", None)
    if check is not None:
        deadline = time.monotonic() + timeout_s
        while not check([key]):
            if time.monotonic() >= deadline:
                return None
            time.sleep(_POLL_S)
    value = store.get(key)
    return value.encode() if isinstance(value, str) else bytes(value)
