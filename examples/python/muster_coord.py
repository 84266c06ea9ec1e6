# SPDX-License-Identifier: Apache-2.0
"""libmuster from Python, without a build step: ctypes over libmuster.so.1.

    from muster_coord import Store

    with Store("file:///var/lib/app") as store:
        with store.acquire("nightly", slots=1, owner="me", ttl=15) as lease:
            lease.keep()                  # renewed from now on
            while work():
                lease.check()             # raises Expired when the claim is gone
                write(row, fence=lease.token)

Times are seconds, as everywhere in Python. What the store refuses is raised: Exists, Conflict,
NotFound, Expired, Invalid, Unsupported, Unavailable, each with `.reason`, `.revision`, `.token`,
`.owner`. The library is found as LIBMUSTER, or where the system keeps its libraries.
"""
import ctypes as c
import ctypes.util
import os
import threading

__all__ = ["Store", "Lease", "Watch", "Entry", "Holder", "Event", "Fence", "CoordError", "Exists",
           "Conflict", "NotFound", "Expired", "Invalid", "Unsupported", "Unavailable"]

ANY, FORCE = 2**64 - 1, 2**64 - 2
NO_SLOT = 2**32 - 1
KEEP = -1
CODES = ["OK", "EXISTS", "CONFLICT", "NOT_FOUND", "EXPIRED", "INVALID", "UNSUPPORTED", "UNAVAILABLE"]
EVENTS = {1: "snapshot_begin", 2: "entry", 3: "snapshot_end", 4: "put", 5: "delete", 6: "expired",
          7: "resync", 8: "progress", 9: "closed"}


# -- the structs of <muster/coord.h>, field by field ------------------------------------------------
class _Id(c.Structure):
    _fields_ = [("b", c.c_uint8 * 16)]


class _Str(c.Structure):
    _fields_ = [("at", c.c_void_p), ("len", c.c_size_t)]


class _Result(c.Structure):
    _fields_ = [("code", c.c_int), ("reason", c.c_int), ("flags", c.c_uint32), ("slot", c.c_uint32),
                ("revision", c.c_uint64), ("token", c.c_uint64), ("granted_ttl_ms", c.c_int64),
                ("live", c.c_uint32), ("slot_count", c.c_uint32), ("hint_ms", c.c_int64),
                ("owner", c.c_char * 132), ("text", c.c_char * 188)]


class _Call(c.Structure):
    _fields_ = [("timeout_ms", c.c_int64), ("request_id", _Id)]


class _Caps(c.Structure):
    _fields_ = [("bits", c.c_uint32), ("scope", c.c_int), ("watch", c.c_int), ("token", c.c_int),
                ("replay", c.c_int), ("degraded", c.c_int), ("server", c.c_char * 96),
                ("note", c.c_char * 256)]


class _Options(c.Structure):
    _fields_ = [("require_scope", c.c_int), ("open_timeout_ms", c.c_int64),
                ("async_threads", c.c_uint32), ("async_max", c.c_uint32),
                ("keep_on_close", c.c_int), ("no_early_death", c.c_int),
                ("tls_ca_file", c.c_char_p), ("tls_cert_file", c.c_char_p),
                ("tls_key_file", c.c_char_p), ("now", c.c_void_p), ("now_arg", c.c_void_p)]


class _Entry(c.Structure):
    _fields_ = [("key", _Str), ("value", _Str), ("owner", c.c_char * 132), ("lease_id", _Id),
                ("revision", c.c_uint64), ("create_revision", c.c_uint64), ("token", c.c_uint64),
                ("ttl_ms", c.c_int64), ("remaining_ms", c.c_int64)]


class _SlotRequest(c.Structure):
    _fields_ = [("group", _Str), ("slot_count", c.c_uint32), ("flags", c.c_uint32),
                ("prefer_slot", c.c_uint32), ("owner", c.c_char_p), ("ttl_ms", c.c_int64),
                ("wait_ms", c.c_int64), ("cooldown_ms", c.c_int64), ("value", _Str)]


class _Holder(c.Structure):
    _fields_ = [("slot", c.c_uint32), ("owner", c.c_char * 132), ("token", c.c_uint64),
                ("revision", c.c_uint64), ("lease_id_prefix", c.c_uint8 * 4),
                ("remaining_ms", c.c_int64), ("value", _Str)]


class _Holders(c.Structure):
    _fields_ = [("slot_count", c.c_uint32), ("revision", c.c_uint64), ("cooldown_ms", c.c_int64),
                ("atomic", c.c_int), ("certainty", c.c_int), ("count", c.c_size_t),
                ("rows", c.POINTER(_Holder))]


class _Event(c.Structure):
    _fields_ = [("type", c.c_int), ("reason", c.c_int), ("revision", c.c_uint64),
                ("token", c.c_uint64), ("key", _Str), ("value", _Str), ("owner", c.c_char * 132)]


class _FenceState(c.Structure):
    _fields_ = [("highest", c.c_uint64)]


_LOST = c.CFUNCTYPE(None, c.c_void_p, c.c_void_p, c.c_int)
_P = c.c_void_p
_SIGNATURES = {  # name: (result, arguments)
    "coord_reason_name": (c.c_char_p, [c.c_int]),
    "coord_open": (_Result, [c.c_char_p, c.POINTER(_Options), c.POINTER(_P)]),
    "coord_close": (None, [_P]),
    "coord_capabilities": (_Caps, [_P]),
    "coord_store_id": (_Id, [_P]),
    "coord_entry_free": (None, [c.POINTER(_Entry)]),
    "coord_create_if_absent": (_Result, [_P, c.POINTER(_Call), _Str, _Str, c.c_int64, c.c_char_p,
                                         c.POINTER(_P)]),
    "coord_create_under": (_Result, [_P, c.POINTER(_Call), _Str, _Str]),
    "coord_compare_and_set": (_Result, [_P, c.POINTER(_Call), _Str, c.c_uint64, _Str, c.c_int64,
                                        c.c_char_p, _P, c.POINTER(_P)]),
    "coord_delete": (_Result, [_P, c.POINTER(_Call), _Str, c.c_uint64, _P]),
    "coord_get": (_Result, [_P, c.POINTER(_Call), _Str, c.c_int, c.POINTER(c.POINTER(_Entry))]),
    "coord_acquire_slot": (_Result, [_P, c.POINTER(_Call), c.POINTER(_SlotRequest),
                                     c.POINTER(_P)]),
    "coord_resize_group": (_Result, [_P, c.POINTER(_Call), _Str, c.c_uint64, c.c_uint32]),
    "coord_list_holders": (_Result, [_P, c.POINTER(_Call), _Str, c.POINTER(c.POINTER(_Holders))]),
    "coord_holders_free": (None, [c.POINTER(_Holders)]),
    "coord_renew": (_Result, [_P, c.POINTER(_Call)]),
    "coord_release": (_Result, [_P, c.POINTER(_Call)]),
    "coord_release_key": (_Result, [_P, c.POINTER(_Call), _Str]),
    "coord_check": (c.c_int, [_P]),
    "coord_safe_for_ms": (c.c_int64, [_P]),
    "coord_keep": (_Result, [_P, _LOST, _P]),
    "coord_lease_token": (c.c_uint64, [_P]),
    "coord_lease_slot": (c.c_uint32, [_P]),
    "coord_lease_ttl_ms": (c.c_int64, [_P]),
    "coord_lease_unref": (None, [_P]),
    "coord_lease_export": (c.c_size_t, [_P, c.c_void_p, c.c_size_t]),
    "coord_lease_import": (_Result, [_P, c.POINTER(_Call), c.c_void_p, c.c_size_t,
                                     c.POINTER(_P)]),
    "coord_fence_admit": (c.c_int, [c.POINTER(_FenceState), c.c_uint64]),
    "coord_watch_open": (_Result, [_P, c.POINTER(_Call), _Str, c.c_uint32, c.POINTER(_P)]),
    "coord_watch_next": (c.c_int, [_P, c.c_int64, c.POINTER(_Event)]),
    "coord_watch_fd": (c.c_int, [_P]),
    "coord_watch_close": (None, [_P]),
}


def _load():
    path = os.environ.get("LIBMUSTER") or ctypes.util.find_library("muster") or "libmuster.so.1"
    library = c.CDLL(path)
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_lib = _load()


# -- what callers see -------------------------------------------------------------------------------
class CoordError(Exception):
    """Base of them all; `.reason` is the library's word, `.maybe_applied` for an unclear outcome."""

    def __init__(self, result):
        self.reason = _lib.coord_reason_name(result.reason).decode()
        self.revision, self.token = result.revision, result.token
        self.owner = result.owner.decode()
        self.retry_in = None if result.hint_ms < 0 else result.hint_ms / 1000
        self.maybe_applied = bool(result.flags & 1)
        super().__init__("%s/%s: %s" % (CODES[result.code], self.reason,
                                        result.text.decode(errors="replace")))


class Exists(CoordError):
    """A live entry or a full group is in the way."""


class Conflict(CoordError):
    """A compare failed: read again."""


class NotFound(CoordError):
    """No such live entry or group."""


class Expired(CoordError):
    """Your lease is over, for good: acquire anew."""


class Invalid(CoordError):
    """An argument; the text names the limit."""


class Unsupported(CoordError):
    """This store cannot enforce it, and changed nothing."""


class Unavailable(CoordError):
    """Not decided now; see `.maybe_applied`."""


_ERRORS = [None, Exists, Conflict, NotFound, Expired, Invalid, Unsupported, Unavailable]


def _check(result):
    if result.code:
        raise _ERRORS[result.code](result)
    return result


def _bytes(text):
    return text if isinstance(text, bytes) else str(text).encode()


def _str(data):
    """The caller keeps `data` alive for the length of the call."""
    return _Str(c.cast(c.c_char_p(data), c.c_void_p), len(data))


def _ms(seconds):
    return int(round(seconds * 1000))


def _call(timeout):
    return c.byref(_Call(timeout_ms=_ms(timeout))) if timeout else None


def _view(text):
    return c.string_at(text.at, text.len) if text.len else b""


class Entry:
    def __init__(self, raw):
        self.key, self.value = _view(raw.key).decode(), _view(raw.value)
        self.owner, self.token = raw.owner.decode(), raw.token
        self.revision, self.create_revision = raw.revision, raw.create_revision
        self.ttl = raw.ttl_ms / 1000


class Holder:
    def __init__(self, raw):
        self.slot, self.owner, self.token = raw.slot, raw.owner.decode(), raw.token
        self.revision, self.value = raw.revision, _view(raw.value)


class Event:
    def __init__(self, raw):
        self.type = EVENTS.get(raw.type, "?")
        self.key, self.value = _view(raw.key).decode(), _view(raw.value)
        self.revision, self.token, self.owner = raw.revision, raw.token, raw.owner.decode()
        self.reason = _lib.coord_reason_name(raw.reason).decode()

    def __repr__(self):
        return "Event(%s %s @%d)" % (self.type, self.key, self.revision)


class Fence:
    """At the protected resource: admits a token unless a larger one was seen."""

    def __init__(self):
        self._state = _FenceState()

    def admit(self, token):
        return bool(_lib.coord_fence_admit(c.byref(self._state), token))


class Lease:
    """A claim. Leaving a `with` releases it; letting it go lets it run out."""

    def __init__(self, pointer, result):
        self._pointer = pointer
        self._on_lost = None
        self.revision, self.slot = result.revision, result.slot
        self.lost = threading.Event()

    token = property(lambda self: _lib.coord_lease_token(self._pointer))
    ttl = property(lambda self: _lib.coord_lease_ttl_ms(self._pointer) / 1000)
    alive = property(lambda self: _lib.coord_check(self._pointer) == 0)
    safe_for = property(lambda self: _lib.coord_safe_for_ms(self._pointer) / 1000)

    def check(self):
        """No I/O. Raises Expired when the claim is, or may be, gone."""
        if not self.alive:
            raise Expired(_Result(code=4, reason=43, hint_ms=-1, text=b"the lease is over here"))

    def renew(self, timeout=None):
        return _check(_lib.coord_renew(self._pointer, _call(timeout)))

    def release(self, timeout=None):
        return _check(_lib.coord_release(self._pointer, _call(timeout)))

    def add(self, key, value=b"", timeout=None):
        """One more key that ends with this lease."""
        key, value = _bytes(key), _bytes(value)
        return _check(_lib.coord_create_under(self._pointer, _call(timeout), _str(key),
                                              _str(value))).revision

    def keep(self, on_lost=None):
        """Renews from now on. `lost` is set, and on_lost(reason) called, once, if it is lost."""
        told = self.lost                # not self: what a lease refers to must not refer to it

        def lost(_arg, _lease, reason):
            told.set()
            if on_lost:
                on_lost(_lib.coord_reason_name(reason).decode())
        self._on_lost = _LOST(lost)     # must live as long as the lease
        _check(_lib.coord_keep(self._pointer, self._on_lost, None))
        return self

    def export(self):
        """Bytes that are the claim: keep them like a password."""
        size = _lib.coord_lease_export(self._pointer, None, 0)
        blob = c.create_string_buffer(size)
        written = _lib.coord_lease_export(self._pointer, blob, size)
        return blob.raw[:written]

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            self.release()
        except (Expired, Unavailable):
            if kind is None:
                raise

    def __del__(self):
        if getattr(self, "_pointer", None) and _lib is not None:
            _lib.coord_lease_unref(self._pointer)
            self._pointer = None


class Watch:
    """Iterates over events: a snapshot, then every change."""

    def __init__(self, pointer):
        self._pointer = pointer

    def next(self, timeout=None):
        """The next event, or None after `timeout` seconds."""
        raw = _Event()
        got = _lib.coord_watch_next(self._pointer, -1 if timeout is None else _ms(timeout),
                                    c.byref(raw))
        return Event(raw) if got else None

    def fileno(self):
        return _lib.coord_watch_fd(self._pointer)

    def __iter__(self):
        while True:
            event = self.next()
            if event is None:
                return
            yield event

    def close(self):
        pointer, self._pointer = self._pointer, None
        if pointer:
            _lib.coord_watch_close(pointer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Store:
    def __init__(self, url, open_timeout=10, require_scope=0, tls_ca=None, tls_cert=None,
                 tls_key=None, keep_on_close=False):
        options = _Options(require_scope=require_scope, open_timeout_ms=_ms(open_timeout),
                           keep_on_close=keep_on_close,
                           tls_ca_file=tls_ca and _bytes(tls_ca),
                           tls_cert_file=tls_cert and _bytes(tls_cert),
                           tls_key_file=tls_key and _bytes(tls_key))
        self._pointer = _P()
        _check(_lib.coord_open(_bytes(url), c.byref(options), c.byref(self._pointer)))

    @property
    def capabilities(self):
        caps = _lib.coord_capabilities(self._pointer)
        return {"bits": caps.bits, "scope": caps.scope, "watch": caps.watch,
                "server": caps.server.decode(), "note": caps.note.decode(),
                "degraded": bool(caps.degraded)}

    def create(self, key, value=b"", ttl=0, owner=None, timeout=None):
        """A revision, or with `ttl` a Lease. Raises Exists."""
        key, value, lease = _bytes(key), _bytes(value), _P()
        result = _check(_lib.coord_create_if_absent(
            self._pointer, _call(timeout), _str(key), _str(value), _ms(ttl),
            owner and _bytes(owner), c.byref(lease)))
        return Lease(lease, result) if ttl else result.revision

    def compare_and_set(self, key, expected, value, lease=None, ttl=None, owner=None, timeout=None):
        """The new revision; with a positive `ttl`, the new Lease. Raises Conflict."""
        key, value, made = _bytes(key), _bytes(value), _P()
        ttl_ms = KEEP if ttl is None and expected else _ms(ttl or 0)
        result = _check(_lib.coord_compare_and_set(
            self._pointer, _call(timeout), _str(key), expected, _str(value), ttl_ms,
            owner and _bytes(owner), lease and lease._pointer, c.byref(made)))
        return Lease(made, result) if ttl else result.revision

    def get(self, key, stale=False, timeout=None):
        """An Entry, or None."""
        key, entry = _bytes(key), c.POINTER(_Entry)()
        try:
            _check(_lib.coord_get(self._pointer, _call(timeout), _str(key), int(stale),
                                  c.byref(entry)))
        except NotFound:
            return None
        try:
            return Entry(entry.contents)
        finally:
            _lib.coord_entry_free(entry)

    def delete(self, key, expected=ANY, lease=None, timeout=None):
        key = _bytes(key)
        return _check(_lib.coord_delete(self._pointer, _call(timeout), _str(key), expected,
                                        lease and lease._pointer)).revision

    def acquire(self, group, slots=1, owner=None, ttl=15, wait=0, value=b"", takeover=False,
                prefer=None, cooldown=0, timeout=None):
        """One of `slots`, as a Lease. Raises Exists when all are held."""
        group, value = _bytes(group), _bytes(value)
        owner = _bytes(owner or "%s:%d" % (os.uname().nodename, os.getpid()))
        request = _SlotRequest(group=_str(group), slot_count=slots, flags=int(takeover),
                               prefer_slot=NO_SLOT if prefer is None else prefer, owner=owner,
                               ttl_ms=_ms(ttl), wait_ms=_ms(wait), cooldown_ms=_ms(cooldown),
                               value=_str(value))
        lease = _P()
        result = _check(_lib.coord_acquire_slot(self._pointer, _call(timeout), c.byref(request),
                                                c.byref(lease)))
        return Lease(lease, result)

    def holders(self, group, timeout=None):
        """(slot_count, revision, [Holder])."""
        group, found = _bytes(group), c.POINTER(_Holders)()
        _check(_lib.coord_list_holders(self._pointer, _call(timeout), _str(group), c.byref(found)))
        try:
            raw = found.contents
            return raw.slot_count, raw.revision, [Holder(raw.rows[i]) for i in range(raw.count)]
        finally:
            _lib.coord_holders_free(found)

    def resize(self, group, expected, slots, timeout=None):
        group = _bytes(group)
        return _check(_lib.coord_resize_group(self._pointer, _call(timeout), _str(group), expected,
                                              slots)).revision

    def adopt(self, blob, timeout=None):
        """A Lease from what Lease.export() gave."""
        lease = _P()
        result = _check(_lib.coord_lease_import(self._pointer, _call(timeout), blob, len(blob),
                                                c.byref(lease)))
        return Lease(lease, result)

    def watch(self, scope, bucket=True, timeout=None):
        scope, watch = _bytes(scope), _P()
        _check(_lib.coord_watch_open(self._pointer, _call(timeout), _str(scope), int(bucket),
                                     c.byref(watch)))
        return Watch(watch)

    def close(self):
        pointer, self._pointer = self._pointer, None
        if pointer:
            _lib.coord_close(pointer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
