//! `jwt` of a route: signed tokens (JWT) that its requests must carry. See [`Jwt`].

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Form, Formed, KeySource, TokenField};
use crate::table::{Absent, H, Key, Kind, Located, S, Section, Value, Words, table, words};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Audience that matches every audience.
const ANY: &str = "*";

words! {
    /// Signature algorithm of a token (RFC 7518, RFC 8037).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum JwtAlgorithm {
        Rs256 = "RS256",
        Rs384 = "RS384",
        Rs512 = "RS512",
        Ps256 = "PS256",
        Ps384 = "PS384",
        Ps512 = "PS512",
        Es256 = "ES256",
        Es384 = "ES384",
        EdDsa = "EdDSA",
        Hs256 = "HS256",
        Hs384 = "HS384",
        Hs512 = "HS512",
    }
}

impl JwtAlgorithm {
    /// Name in the `alg` of tokens and keys.
    pub fn name(self) -> &'static str {
        self.word()
    }

    /// Algorithm of a name; `None` if tokens with it are never accepted, as with `none`.
    pub fn of_name(name: &str) -> Option<JwtAlgorithm> {
        JwtAlgorithm::of_word(name)
    }

    /// True if tokens are signed and verified with the same secret key.
    pub fn is_symmetric(self) -> bool {
        matches!(self, JwtAlgorithm::Hs256 | JwtAlgorithm::Hs384 | JwtAlgorithm::Hs512)
    }
}

/// The key `jwt` of routes.
pub(in crate::sections) const JWT: Key = Key {
    name: "jwt",
    kind: Kind::Table(&JWT_TABLE),
    absent: Absent::Means("requests need no token"),
    help: "Signed tokens (JWT) that requests must carry.",
    why: "",
};

table! {
    static JWT_TABLE = "jwt of [[route]]",
        "Accepts only requests with a valid token: a JSON Web Token (RFC 7519) of at most 8 KiB in `Authorization: \
        Bearer`. Its signature is verified with a key of a JWK set (RFC 7517), then its times, issuer, audience and \
        claims. Requests without a valid token get a 401. Requests with a token that lacks a required claim get a 403. \
        Both responses have `WWW-Authenticate` (RFC 6750). Tokens with the algorithm `none`, or with a `crit` that \
        evenkeel does not know, are never valid.";

    /// `jwt` of a route.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct Jwt {
        /// JWK set with the keys that sign tokens.
        keys: KeySource = Key {
            name: "keys",
            kind: Kind::Text(Form::KeySource),
            absent: Absent::Required("\"https://idp.example/jwks.json\""),
            help: "JWK set with the keys that sign tokens, at most 256 KiB. A file is read at startup, at each reload \
                and, with `runtime.watch`, when it changes. An `https://` URL (`http://` only for this machine) is \
                fetched at startup, and again before the response becomes stale.",
            why: "",
        };
        /// Certificates of the authorities that are trusted for the URL; `None` = the authorities of the system.
        ca: Option<PathBuf> = Key {
            name: "ca",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("the system's trust store"),
            help: "PEM file of the authorities trusted for the URL in `keys`.",
            why: "",
        };
        /// Time between two fetches of a set whose response states no lifetime.
        refresh: Duration = Key {
            name: "refresh",
            kind: Kind::Duration { min: 30 * S, max: 24 * H, off: false },
            absent: Absent::Default("\"10m\""),
            help: "Time between two fetches of the URL in `keys` if its responses have no `Cache-Control: max-age`. A \
                `max-age` counts from 30 s to 24 h. A token with an unknown `kid` also causes a fetch, at most every \
                10 s. While fetches fail, the keys of the last successful fetch stay in use.",
            why: "Issuers publish a key long before they sign with it.",
        };
        /// Algorithms that tokens may be signed with.
        algorithms: Vec<JwtAlgorithm> = Key {
            name: "algorithms",
            kind: Kind::List(&Kind::Choice(JwtAlgorithm::WORDS)),
            absent: Absent::Default(
                "[\"RS256\", \"RS384\", \"RS512\", \"PS256\", \"PS384\", \"PS512\", \"ES256\", \"ES384\", \"EdDSA\"]",
            ),
            help: "Algorithms that tokens may be signed with. `HS256`, `HS384` and `HS512` need a secret key (`oct`) \
                in a file, and cannot be combined with other algorithms.",
            why: "All algorithms with public keys, since a JWK set is usually public.",
        };
        /// Issuer of tokens; `None` = any.
        issuer: Option<Arc<str>> = Key {
            name: "issuer",
            kind: Kind::Text(Form::Content),
            absent: Absent::Means("any issuer with a key in the set"),
            help: "Issuer that tokens must name (`iss`).",
            why: "",
        };
        /// Audiences, one of which a token must name; empty = tokens must name none.
        audience: Vec<Arc<str>> = Key {
            name: "audience",
            kind: Kind::List(&Kind::Text(Form::Content)),
            absent: Absent::Means("tokens that name no audience"),
            help: "Names, one of which must be in the token's audience (`aud`). `[\"*\"]` accepts any audience, or \
                none. Without this key, a token that names an audience is refused (RFC 7519 section 4.1.3).",
            why: "A token for another service must not be valid here.",
        };
        /// Required claims with their allowed values.
        require: Vec<(Arc<str>, Vec<Arc<str>>)> = Key {
            name: "require",
            kind: Kind::Map { keys: Form::Content, of: &Kind::List(&Kind::Text(Form::Content)) },
            absent: Absent::Means("no claims"),
            help: "Claims that tokens must have, each with its allowed values: `{ role = [\"admin\", \"owner\"] }`. If \
                a claim is an array, one element must be an allowed value; `scope` is split at spaces. \
                `/realm_access/roles` is a claim within another claim.",
            why: "",
        };
        /// Fields for the endpoint, each with the claim that it gets.
        claims_to: Vec<(Arc<str>, Arc<str>)> = Key {
            name: "claims_to",
            kind: Kind::Map { keys: Form::FieldName, of: &Kind::Text(Form::Content) },
            absent: Absent::Means("none"),
            help: "Fields to send to the endpoint, each with the name of a claim: `{ X-User = \"sub\" }`. The client's \
                fields of these names are removed. The elements of an array are joined by commas. A token is refused \
                if such a claim has a control character, begins or ends with a space, is an object, or is an array \
                with a comma in an element.",
            why: "",
        };
        /// Field or cookie of the request that holds the token.
        from: TokenField = Key {
            name: "from",
            kind: Kind::Text(Form::TokenField),
            absent: Absent::Default("\"bearer\""),
            help: "Place of the token: `bearer` for `Authorization: Bearer`, `cookie:NAME`, or `header:NAME` for a \
                field that holds only the token.",
            why: "Browsers also send cookies with requests that other pages cause, so cookies need protection from \
                forged requests (CSRF).",
        };
        /// True if the endpoint gets the token.
        keep: bool = Key {
            name: "keep",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Forwards the token to the endpoint. `false` removes the field or the cookie that holds it.",
            why: "Applications that verify tokens themselves still can.",
        };
        /// Tolerated difference of clocks.
        leeway: Duration = Key {
            name: "leeway",
            kind: Kind::Duration { min: 0, max: 600 * S, off: false },
            absent: Absent::Default("\"60s\""),
            help: "Tolerated difference between the clocks of the issuer and this machine, for `exp` and `nbf`.",
            why: "The default of Envoy and of most libraries.",
        };
        /// True if tokens without an expiry are refused.
        require_exp: bool = Key {
            name: "require_exp",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Refuses tokens without an expiry (`exp`).",
            why: "A stolen token without an expiry is valid forever.",
        };
        /// Realm in `WWW-Authenticate`.
        realm: Arc<str> = Key {
            name: "realm",
            kind: Kind::Text(Form::Label),
            absent: Absent::Default("\"restricted\""),
            help: "Realm in `WWW-Authenticate`.",
            why: "",
        };
        /// Verified tokens that each worker remembers.
        cache: usize = Key {
            name: "cache",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            absent: Absent::Default("1_000"),
            help: "Maximum verified tokens that each worker remembers for the route, for at most 5 minutes, so that \
                their signatures are not verified again. They are forgotten when the keys change.",
            why: "Each token takes about half a KiB, and a client sends the same token many times.",
        };
    }
}

impl Jwt {
    /// True if tokens of every audience are accepted.
    pub fn takes_any_audience(&self) -> bool {
        self.audience.iter().any(|audience| &**audience == ANY)
    }
}

/// Reports algorithms that exclude each other or the place of the keys, keys without effect, and fields named twice.
pub(in crate::sections) fn check(route: &Section, findings: &mut Findings) {
    if !route.has_read("jwt") {
        return;
    }
    let jwt = route.section("jwt");
    check_algorithms(&jwt, findings);
    let is_url = matches!(jwt.formed("keys"), Some(Formed::KeySource(KeySource::Url(_))));
    for key in ["ca", "refresh"].into_iter().filter(|_| jwt.has_read("keys") && !is_url) {
        if let Some(set) = jwt.set(key) {
            jwt.contradiction(set.span, format!("\"{key}\" is for keys that are fetched from a URL"), "keys", findings)
                .help("leave it out, or set the URL of the keys");
        }
    }
    let audience = jwt.texts("audience");
    if let Some((_, span)) = audience.iter().find(|(name, _)| name == ANY).filter(|_| audience.len() > 1) {
        findings
            .add(Code::Contradiction, *span, "\"*\" accepts every audience, so the others have no effect")
            .help("leave out the star, or the others");
    }
    let mut seen = HashMap::new();
    for keyed in jwt.map("claims_to") {
        // Servers that turn fields into variables take one for the other.
        let name = keyed.key.to_ascii_lowercase().replace('_', "-");
        if let Some(first) = seen.insert(name, keyed.span) {
            findings
                .add(Code::SameName, keyed.span, format!("\"claims_to\" has the field \"{}\" twice", keyed.key))
                .see("it is here first", first)
                .help("names are compared without regard to case, and _ is like -: write it once");
        }
    }
}

fn check_algorithms(jwt: &Section, findings: &mut Findings) {
    let algorithm = |Located { span, value }: Located| match value {
        Value::Word(word) => Some((JwtAlgorithm::of_word(word)?, span)),
        _ => None,
    };
    let all = jwt.list("algorithms").into_iter().filter_map(algorithm);
    let (secret, public): (Vec<_>, Vec<_>) = all.partition(|(algorithm, _)| algorithm.is_symmetric());
    let Some((algorithm, span)) = secret.first() else { return };
    if let Some((other, at)) = public.first() {
        let message = format!("{} and {} cannot be accepted together", algorithm.name(), other.name());
        findings
            .add(Code::Contradiction, *span, message)
            .see("the other kind is here", *at)
            .help("a public key might be taken for a secret one: list algorithms of one kind, on a route for each");
    }
    if let Some(Formed::KeySource(KeySource::Url(_))) = jwt.formed("keys") {
        let message = format!("{} needs a secret key, which must not be fetched", algorithm.name());
        jwt.contradiction(*span, message, "keys", findings)
            .help("set the path of a file with the key, or algorithms with public keys, such as \"RS256\"");
    }
}
