//! Filters of routes: a file for each subject, and [`FILTER_KEYS`], the table of their keys. `[[route]]` has all of
//! them, `[filters.NAME]` and `[defaults.route]` ([`sets`]) have those that routes share.

// Order: access, bandwidth, basic_auth, body_max, cache, compress, cookies, cors, forward_auth, internal_redirects, jwt, limits, mirror,
// rewrite, headers, edits, sets
mod access;
mod bandwidth;
mod basic_auth;
mod body_max;
mod cache;
mod compress;
mod cookies;
mod cors;
mod edits;
mod forward_auth;
pub(crate) mod headers;
pub(crate) mod internal_redirects;
mod jwt;
mod limits;
mod mirror;
mod rewrite;
pub(crate) mod sets;

pub use super::action::Maintenance;
pub use super::error_pages::ErrorPage;
pub use access::Access;
pub use bandwidth::Bandwidth;
pub use basic_auth::{BasicAuth, Users};
pub use cache::{Cache, CacheQuery, CookieRule, StatusTimes};
pub use compress::{Algorithm, Compress, CompressLevel, Effort};
pub use cookies::CookieAttributes;
pub use cors::Cors;
pub use edits::{RequestEdit, ResponseEdit, ResponseWhen};
pub use forward_auth::ForwardAuth;
pub use headers::{RequestHeaders, ResponseHeaders, add_field};
pub use jwt::{Jwt, JwtAlgorithm};
pub use limits::{LIMITS_MAX, Limit, Most};
pub(crate) use limits::{SHARED_LIMIT, shared_limits};
pub use mirror::{MIRRORS_MAX, Mirror};
pub use rewrite::Rewrite;

use super::action::MAINTENANCE;
use super::error_pages::{self, ERROR_PAGES, INTERCEPT};
use crate::diagnostic::Findings;
use crate::form::SendHost;
use crate::table::{Declared, Key, Section, table};
use access::ACCESS_KEY;
use bandwidth::BANDWIDTH;
use basic_auth::BASIC_AUTH_KEY;
use body_max::BODY_MAX;
use cache::CACHE_KEY;
use compress::COMPRESS;
use cookies::COOKIES;
use cors::CORS;
use forward_auth::FORWARD_AUTH;
use headers::{REQUEST_HEADERS, REQUEST_TRAILERS, RESPONSE_HEADERS};
use internal_redirects::INTERNAL_REDIRECTS;
use jwt::JWT;
use limits::LIMITS_KEY;
use mirror::MIRROR;
use rewrite::{RESTORE_PREFIX, REWRITE, SEND_HOST, STRIP_PREFIX, STRIP_SLASHES};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A key by which `[[route]]` configures a filter or a part of it.
pub struct FilterKey {
    /// Row of the key in its tables.
    pub key: &'static Key,
    /// Functions that report contradictions within the key's value, and between the value and the rest of the route.
    checks: &'static [fn(&Section, &mut Findings)],
    /// True if the key's value is not the same in both.
    differs: fn(&Filters, &Filters) -> bool,
    /// True if `[filters.NAME]` and `[defaults.route]` have the key, too. False if its value depends on the match of its
    /// route.
    is_shared: bool,
}

/// Declares [`Filters`] and [`FILTER_KEYS`]. Fields are written as in a [`table!`], with `shared false` if its key belongs to
/// routes alone, and with the function that checks it.
macro_rules! filters {
    ($(
        $(#[$doc:meta])*
        $field:ident: $ty:ty = $row:expr $(, shared $shared:literal)? $(, check $check:path)?;
    )*) => {
        table! {
            static FILTERS = "filters of [[route]]", "Filters that requests and their responses pass.";

            /// Filters of a route, in the order of passing.
            #[derive(Clone, Debug, PartialEq)]
            pub struct Filters {
                $( $(#[$doc])* $field: $ty = $row; )*
            }
        }

        /// Keys of all filters, in the order of the reference.
        pub static FILTER_KEYS: &[FilterKey] = &[$(
            FilterKey {
                key: &$row,
                checks: &[$($check)?],
                differs: |a, b| a.$field != b.$field,
                is_shared: true $(&& $shared)?,
            },
        )*];
    };
}

filters! {
    /// Maintenance, during which requests get 503; `None` = off.
    maintenance: Option<Maintenance> = MAINTENANCE;
    /// Pages for evenkeel's own responses, preferred to the pages of the listener.
    error_pages: Vec<ErrorPage> = ERROR_PAGES, check error_pages::check;
    /// Statuses of endpoints whose responses are replaced by a page.
    intercept: Vec<RangeInclusive<u16>> = INTERCEPT;
    /// Fields by which responses of endpoints name a path that an internal route answers.
    internal_redirects: Vec<Arc<str>> = INTERNAL_REDIRECTS;
    /// Changes to fields on their way to the endpoint.
    request_headers: RequestHeaders = REQUEST_HEADERS, check headers::check_request;
    /// Names of the trailers of requests that endpoints get.
    request_trailers: Vec<Arc<str>> = REQUEST_TRAILERS, check headers::check_trailers;
    /// Changes to fields on their way to the client, of endpoints and of evenkeel itself.
    response_headers: ResponseHeaders = RESPONSE_HEADERS, check headers::check_response;
    /// True if endpoints get the path without the prefix that the route matches.
    strip_prefix: bool = STRIP_PREFIX, shared false;
    /// True if a path that would begin with several slashes keeps one, instead of being refused.
    strip_slashes: bool = STRIP_SLASHES, shared false;
    /// Another path for endpoints; `None` keeps the client's.
    rewrite: Option<Rewrite> = REWRITE, shared false, check rewrite::check;
    /// True if links of responses get the prefix that was removed.
    restore_prefix: bool = RESTORE_PREFIX, shared false;
    /// Choice between the client's host, the endpoint's own and a fixed one.
    send_host: SendHost = SEND_HOST;
    /// Attributes for the cookies of endpoints.
    cookies: CookieAttributes = COOKIES, check cookies::check;
    /// Networks whose clients are served or refused; `None` = all are served.
    access: Option<Access> = ACCESS_KEY, check access::check;
    /// Limits on request rates and requests in flight, at most 8.
    limits: Vec<Limit> = LIMITS_KEY, check limits::check;
    /// Tokens that requests must carry; `None` = none.
    jwt: Option<Jwt> = JWT, check jwt::check;
    /// Maximum bytes of a request body; `None` = no limit.
    body_max: Option<u64> = BODY_MAX;
    /// Maximum bytes of bodies per second.
    bandwidth: Bandwidth = BANDWIDTH, check bandwidth::check;
    /// Stored responses; `None` = none are stored.
    cache: Option<Cache> = CACHE_KEY, check cache::check;
    /// Compression of responses; `None` = no compression.
    compress: Option<Compress> = COMPRESS, check compress::check;
    /// Pages of other origins that may read responses; `None` leaves CORS to the endpoint.
    cors: Option<Cors> = CORS, check cors::check;
    /// Users and passwords, one of which a request must carry; `None` = all requests pass.
    basic_auth: Option<BasicAuth> = BASIC_AUTH_KEY, check basic_auth::check;
    /// Service that decides about each request; `None` = none is asked.
    forward_auth: Option<ForwardAuth> = FORWARD_AUTH, check forward_auth::check;
    /// Copies of requests for other pools, at most 8.
    mirrors: Vec<Mirror> = MIRROR, check mirror::check;
}

impl FilterKey {
    /// Returns the row of a key. Panics if there is none: tables of a program call this when they are compiled.
    pub const fn named(name: &str) -> &'static FilterKey {
        let mut at = 0;
        while at < FILTER_KEYS.len() {
            if is_equal(FILTER_KEYS[at].key.name.as_bytes(), name.as_bytes()) {
                return &FILTER_KEYS[at];
            }
            at += 1;
        }
        panic!("FILTER_KEYS has no row of this name")
    }

    /// True if the filters set the key to something other than its default.
    pub fn is_set(&self, filters: &Filters) -> bool {
        (self.differs)(filters, Filters::unset())
    }
}

/// Reports contradictions within the filters of a route, and with its match.
pub(crate) fn check(route: &Section, findings: &mut Findings) {
    FILTER_KEYS.iter().flat_map(|row| row.checks).for_each(|check| check(route, findings));
}

/// Reports contradictions within the filters that routes share.
pub(crate) fn check_shared(route: &Section, findings: &mut Findings) {
    let shared = FILTER_KEYS.iter().filter(|row| row.is_shared);
    shared.flat_map(|row| row.checks).for_each(|check| check(route, findings));
}

impl Filters {
    /// Fills in the limits that the filters share with other routes.
    pub(crate) fn share_limits(&mut self, limits: &[(Arc<str>, Limit)]) {
        for limit in &mut self.limits {
            let shared = limits.iter().find(|(name, _)| limit.shared.as_ref() == Some(name));
            if let Some((name, shared)) = shared {
                *limit = Limit { shared: Some(name.clone()), ..shared.clone() };
            }
        }
    }

    /// Names of the pools that get requests of filters.
    pub fn pools(&self) -> impl Iterator<Item = &Arc<str>> {
        let auth = self.forward_auth.iter().map(|auth| &auth.pool);
        let pages = self.error_pages.iter().filter_map(|page| page.pool.as_ref());
        auth.chain(self.mirrors.iter().map(|mirror| &mirror.pool)).chain(pages)
    }
}

const fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}
