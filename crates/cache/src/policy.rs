//! Configuration of the rules.

use std::ops::RangeInclusive;

/// Rules of a cache, as its operator set them. `Default` is safe for any endpoint: explicit lifetimes only, no cookies,
/// and clients cannot make the cache ask the endpoint.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Names of targeted fields, the most important first (RFC 9213 section 2.2). The first valid field replaces
    /// `Cache-Control` and `Expires`.
    pub targeted: Vec<Box<str>>,
    /// Shortest lifetime in seconds for responses that state a lifetime, even if they state less. Responses that must
    /// not be stored, or must be validated before each use, stay so.
    pub lifetime_min: u32,
    /// Longest lifetime in seconds, whatever a response states.
    pub lifetime_max: u32,
    /// Lifetimes in seconds for responses that state none, by status; the first entry that includes the status counts.
    /// Without an entry, such a response is stored only if it can be validated.
    pub lifetime_by_status: Vec<(RangeInclusive<u16>, u32)>,
    /// Lifetime of responses that state none, by the age of their content (RFC 9111 section 4.2.2).
    pub heuristic: Option<Heuristic>,
    /// Seconds for responses without `stale-while-revalidate` that do not forbid it. 0: never.
    pub stale_while_revalidate: u32,
    /// Seconds for responses without `stale-if-error` that do not forbid it. 0: never.
    pub stale_if_error: u32,
    /// True if errors are stored whatever their status. False for 404, 405, 410, 414, 451, 501 and the statuses of
    /// `lifetime_by_status` alone: any other error may be due to a field of its request that the key lacks, and then a
    /// client could make everyone get it (Nguyen, Lo Iacono, Federrath: "Your Cache Has Fallen", 2019).
    pub stores_errors: bool,
    /// Handling of responses with `Set-Cookie`.
    pub set_cookie: SetCookie,
    /// True if `Cache-Control` and `Pragma` of requests count. False for a cache that protects its endpoints: a client
    /// that sends `no-cache` in a loop would get each request through.
    pub request_directives: bool,
    /// Access control that requests have passed before the cache sees them.
    pub access: Access,
    /// True if a stored response also serves a request with another list of languages, as long as the request prefers
    /// the language of that response. Only for endpoints that have each page in each of their languages.
    pub selects_language: bool,
    /// True if the fields with tags are sent to clients.
    pub sends_tags: bool,
    /// Largest body that is stored, in bytes.
    pub body_max: u64,
    /// Most bytes of a stored head: fields, values of varying fields, and tags.
    pub head_max: u32,
}

impl Policy {
    /// True if the operator has given this status a lifetime.
    pub(crate) fn names(&self, status: u16) -> bool {
        self.lifetime_by_status.iter().any(|(statuses, _)| statuses.contains(&status))
    }
}

/// Lifetime as a share of the time since the content was modified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heuristic {
    /// Share in percent; RFC 9111 names 10 as typical.
    pub percent: u8,
    /// Longest lifetime in seconds.
    pub max: u32,
}

/// Handling of responses with `Set-Cookie`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetCookie {
    /// Such responses are not stored.
    #[default]
    Refuse,
    /// They are stored without their cookies, which only the client of the request gets.
    Strip,
    /// They are stored with their cookies, which every client gets.
    Store,
}

/// Access control in front of a cache. Responses to requests that it let in are stored only with `public`, `s-maxage` or
/// `must-revalidate`, as those to requests with `Authorization` (RFC 9111 section 3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// None: only `Authorization` counts.
    #[default]
    Open,
    /// Every request was let in, by its address, its credentials or a service.
    Guarded,
    /// Every request was let in as a user who is part of the key ([`crate::key::Place::user`]), so no other user gets the
    /// response: it needs no permission.
    PerUser,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            targeted: vec!["CDN-Cache-Control".into()],
            lifetime_min: 0,
            lifetime_max: crate::moment::SECONDS_MAX,
            lifetime_by_status: Vec::new(),
            heuristic: None,
            stale_while_revalidate: 0,
            stale_if_error: 0,
            stores_errors: false,
            set_cookie: SetCookie::Refuse,
            request_directives: false,
            access: Access::Open,
            selects_language: false,
            sends_tags: false,
            body_max: 1 << 20,
            head_max: 32 << 10,
        }
    }
}
