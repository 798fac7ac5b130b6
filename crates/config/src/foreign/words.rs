//! Keys and algorithm names of other proxies. A row has all words for a thing, written without `_`, `-` and
//! capitals, and its counterpart here. An example in `<` and `>` is replaced by the value seen, and
//! `<KEY|EXAMPLE>` by the value of that key in the same table.
//!
//! Long because it is a table, in which a word must not stand twice.

/// Words separated by spaces, and their counterpart.
pub(super) type Row = (&'static str, &'static str);

/// Algorithms that hash a key of the request.
const BY_KEY: &str =
    "{ maglev = { key = \"client-ip\" } }, or another key: \"path\", \"header:NAME\", \"cookie:NAME\", \"query:NAME\"";

/// Names of algorithms that are not aliases here.
pub(super) const ALGORITHMS: &[Row] = &[
    ("iphash source sourceip clientiphash clientip hashclient", "{ maglev = { key = \"client-ip\" } }"),
    ("uri urihash uripathhash path url", "{ maglev = { key = \"path\" } }"),
    (
        "ringhash consistent consistenthashing hrw rendezvous chash urlparam hdr headerhash header cookie queryhash",
        BY_KEY,
    ),
    ("wrr weightedroundrobin staticrr smoothwrr swrr", "\"round_robin\", which takes weights"),
    ("leasttime fastest latencybased", "\"peak_ewma\", which uses latency and requests in flight"),
    ("randomchoose poweroftwochoices powerof2 twochoices randomtwo", "\"random\", which compares two"),
    ("leastconnections lc wlc weightedleastconn minconn", "\"leastconn\""),
];

const NOT_YET: &str = "evenkeel does not do this yet; what routes can do is in docs/guide/routing.md";
const AUTH: &str =
    "basic_auth, jwt or forward_auth, each a key of a [[route]] or of [filters.NAME]; docs/guide/auth.md";
const FILTERS: &str =
    "use = [\"NAME\"] in a [[route]], with [filters.NAME], or keys of the route itself, such as request_headers";
const HEADERS: &str = "request_headers = { set = { X-Real-IP = \"{client.ip}\" } } or response_headers, keys of a [[route]]; X-Forwarded-* are always sent, and request_id and tls.hsts of a listener send X-Request-Id and Strict-Transport-Security";
const REWRITE: &str = "strip_prefix = true or rewrite = { prefix = \"/v2\" }, keys of a [[route]]";
const ACCESS: &str =
    "access = { allow = [\"10.0.0.0/8\"], deny = [\"10.1.0.0/16\"] } in a [[route]]: the longest network decides";
const JWT: &str =
    "jwt = { keys = <\"https://idp.example/jwks.json\">, issuer = \"https://idp.example\", audience = [\"api\"] }";
const BODY_MAX: &str = "body_max = <\"10MB\">, a key of a [[route]]";
const COMPRESS: &str = "compress = true, a key of a [[route]], or of [defaults.route] for all routes";
const CORS: &str =
    "cors = { origins = [\"https://a.example\"], methods = [\"PUT\"], headers = [\"X-A\"] }, a key of a [[route]]";
const PASSWORDS: &str =
    "basic_auth = { file = \"/etc/evenkeel/htpasswd\" } in a [[route]], with the users that htpasswd -B writes";
const HTTP3: &str = "http3 = true in the [listener.NAME] that has tls";
const CONSUL: &str = "discover = { consul = { service = <\"web\"> } }";
const NOMAD: &str = "discover = { nomad = { service = <\"web\"> } }";
const DOCKER: &str = "discover = { docker = { labels = [<\"evenkeel.pool=web\">] } }";
const KUBERNETES: &str = "discover = { kubernetes = { service = <\"web\">, port = \"http\" } }";
const ETCD: &str = "discover = { etcd = { prefix = <\"/evenkeel/web/\"> } }";
const XDS: &str = "discover = { xds = { cluster = <\"web\"> } }";
const OTHERS: &str =
    "evenkeel does not read this yet: write a file of endpoints from it, file = \"/etc/evenkeel/endpoints.json\"";
const INSECURE: &str = "tls = { verify = false }, which trusts any endpoint; tls = { ca = \"FILE.pem\" } is safer";
const EJECT: &str = "outlier = { eject = <\"30s\"> }";
const EJECT_AT_MOST: &str = "outlier = { eject_at_most = <0.3> }, a share of the pool";
const RETRY_ON: &str = "retry = { on = [<\"connect\", \"reset\">] }";
const ATTEMPTS: &str = "retry = { attempts = <2..=10> }";
const TRY_TIMEOUT: &str = "retry = { try_timeout = <\"2s\">, on = [\"connect\", \"reset\", \"timeout\"] }";

/// Keys of retry settings, in any table.
const OF_RETRY: &[Row] = &[
    ("retryon conditions when statuses codes proxynextupstream", "on = [<\"connect\", \"reset\">]"),
    ("numretries retries maxretries count max limit tries proxynextupstreamtries", "attempts = <2..=10>"),
    ("pertrytimeout timeout perattempttimeout attempttimeout", "try_timeout = <\"2s\">, with \"timeout\" in on"),
    (
        "retrybackoff baseinterval initialinterval interval",
        "backoff = \"25ms..250ms\", the first pause and the longest",
    ),
    ("retrybudget budgetpercent", "budget = <0.2>, retries as a share of requests"),
    ("hedge hedging hedgepolicy", "hedge_after = \"p95\""),
];

/// Names of failures to retry.
pub(super) const FAILURES: &[Row] = &[
    ("connectfailure connfailure error", "\"connect\""),
    ("resetbeforerequest refusedstream emptyresponse", "\"reset\""),
    ("responsetimeout", "\"timeout\""),
    ("5xx allretryableerrors", "\"connect\", \"reset\", \"5xx\""),
    ("gatewayerror", "\"502..=504\""),
    ("retriable4xx", "409"),
    ("http500", "500"),
    ("http502", "502"),
    ("http503", "503"),
    ("http504", "504"),
    ("unavailable", "\"grpc:unavailable\""),
    ("resourceexhausted", "\"grpc:resource-exhausted\""),
    ("deadlineexceeded", "\"grpc:deadline-exceeded\""),
];

/// Keys that show whether a `server` accepts clients or is an endpoint.
pub(super) const OF_LISTENERS: &[&str] =
    &["listen", "bind", "server_name", "location", "root", "proxy_pass", "tls", "mode"];
pub(super) const OF_ENDPOINTS: &[&str] = &["addr", "address", "host", "ip", "url", "weight", "backup"];
pub(super) const SERVER: &str = "[listener.NAME] for what clients connect to, or an element of endpoints in [pool.NAME] for what answers; docs/guide/coming-from.md";
const TLS: &str =
    "tls = { certificates = [{ cert = \"FILE.pem\", key = \"FILE.key\" }] } of the listener; docs/guide/tls.md";
const ACME: &str =
    "[acme], and tls = { certificates = [{ acme = [\"www.example.com\"] }] } of the listener; docs/guide/tls.md";
const POOL_TLS: &str = "tls = { ca = \"FILE.pem\", server_name = \"NAME\" } of the pool; docs/guide/tls.md";
pub(super) const LISTENER: &str =
    "[listener.NAME], with bind = [\"[::]:80\"] and pool = \"NAME\" or [[route]]s; docs/guide/coming-from.md";
pub(super) const POOL: &str = "[pool.NAME], with endpoints = [\"10.0.0.1:8080\"]; docs/guide/coming-from.md";
const ROUTE: &str = "[[route]], with match = { host = [\"www.example.com\"], prefix = \"/\" } and pool = \"NAME\"; docs/guide/coming-from.md";
const ALL: &str = "[listener.NAME], [[route]] and [pool.NAME], each at the top level; docs/guide/coming-from.md";
const BIND: &str = "bind = [<\"[::]:80\">]: all addresses, each with its port";
const TO_POOL: &str = "pool = <\"NAME\">, the name of a [pool.NAME]";
const HOST: &str = "match = { host = [<\"www.example.com\">] } of a [[route]]";
const HEALTH: &str = "health = { http = \"/healthz\" }, or tcp = {} instead of http";
const ENDPOINTS: &str = "endpoints = [<\"10.0.0.1:8080\", \"10.0.0.2:8080\">]";
const REQUESTS: &str = "limits = { requests_per_endpoint = <100> } of the pool";
const OUTLIER: &str = "outlier = { consecutive_5xx = 5 }; it is on unless outlier = \"off\"";
const STICKY: &str = "sticky = { secret_file = \"/etc/evenkeel/sticky.key\" } of the pool: a signed cookie of its own";
const RETRY: &str = "retry = { attempts = 2, on = [\"connect\", \"503\"] }";
const BALANCE: &str =
    "balance = \"NAME\" or { NAME = { PARAMETER = VALUE } } in the pool; `evenkeel algorithms` lists them";

/// Advice for a pool's algorithm under another key; a known name is translated.
pub(super) const ALGORITHM: &str =
    "balance = \"NAME\": `evenkeel algorithms` lists them, as \"leastconn\", \"round_robin\" and \"random\"";

/// Counterparts of keys, by the table that they are found in.
pub(super) const KEYS: &[(&str, &[Row])] = &[
    (
        "the top level",
        &[
            ("frontend frontends listen listeners entrypoint entrypoints bind", LISTENER),
            ("backend backends upstream upstreams cluster clusters service services targetgroup farm pools", POOL),
            ("server servers", SERVER),
            (
                "router routers routes location locations virtualhost virtualhosts vhost vhosts acl usebackend defaultbackend rule rules ingress handle",
                ROUTE,
            ),
            ("http apps staticresources dynamicresources layeredruntime loadbalancer loadbalancing", ALL),
            (
                "tcp stream streams layer4",
                "[listener.NAME] with mode = \"tcp\" and pool = \"NAME\", and [pool.NAME] with endpoints; docs/guide/coming-from.md",
            ),
            (
                "udp",
                "[listener.NAME] with mode = \"udp\" and pool = \"NAME\", and [pool.NAME] with endpoints; docs/guide/coming-from.md",
            ),
            (
                "global main process",
                "[runtime]; limits of clients are limits in [listener.NAME]; docs/guide/coming-from.md",
            ),
            ("nbthread nbproc threads workers workerprocesses", "workers = <4> in [runtime]"),
            (
                "events",
                "nothing: workers need no settings; the number of connections is limited by limits in [listener.NAME]",
            ),
            ("maxconn workerconnections", "limits = { connections = <10000> } in [listener.NAME]"),
            (
                "log logs logging accesslog errorlog",
                "access_log = { path = \"-\" } in [telemetry] for requests, and log = { level = \"info\" } in [runtime] for the process",
            ),
            (
                "stats api dashboard ping metrics prometheus monitoring",
                "[admin], with http = { bind = \"127.0.0.1:9900\" } for /metrics, /livez and /readyz",
            ),
            ("resolvers dns nameservers", "[resolver], with nameservers = [\"10.0.0.53:53\"]"),
            (
                "providers",
                "discover of [pool.NAME], such as discover = { consul = { service = \"web\" } }; servers stand in [discovery]",
            ),
            ("timeout timeouts", "[defaults.timeouts]"),
            ("retries retry", "[defaults.retry]"),
            ("balance algorithm lbpolicy iphash leastconn", BALANCE),
            ("healthcheck healthchecks check checks", "health = { http = \"/healthz\" } in [pool.NAME]"),
            ("tls ssl certificates crtlist", TLS),
            ("certificatesresolvers acmeca acmeemail letsencrypt", ACME),
            (
                "middleware middlewares filter filterchain",
                "[filters.NAME], a set of filters that routes name in use = [\"NAME\"]",
            ),
            ("plugins peers program", NOT_YET),
            ("allow deny acls ipallowlist ipwhitelist", ACCESS),
            ("addheader headers", HEADERS),
            ("http3 quic", HTTP3),
        ],
    ),
    (
        "[listener.NAME]",
        &[
            ("listen address addresses addr port bindaddr entrypoint socketaddress", BIND),
            (
                "backend defaultbackend upstream proxypass cluster service reverseproxy defaultpool to forward target",
                TO_POOL,
            ),
            ("host hosts hostname servername domain domains", HOST),
            (
                "path location locations prefix pathprefix acl usebackend route routes rule rules router virtualhosts",
                ROUTE,
            ),
            ("maxconn maxconnections connectionlimit workerconnections", "limits = { connections = <10000> }"),
            (
                "ratelimit limitreq limitconn ratelimiting",
                "limits = { requests_per_address = 100, connections_per_address = 20 }",
            ),
            (
                "proxyprotocol acceptproxy",
                "accept_proxy_protocol = [\"10.0.0.0/8\"], the networks of the proxies that send it",
            ),
            (
                "realip setrealipfrom forwardedheaders trustedips trustedproxy forwardfor forwardedfor usexforwardedfor",
                "trusted_proxies = [\"10.0.0.0/8\"], the networks of proxies in front; X-Forwarded-For is always forwarded",
            ),
            ("protocol type", "mode = \"http\", \"tcp\", \"udp\" or \"dns\""),
            ("ssl crt cert certs certificate certificates sslcertificate alpn sni", TLS),
            ("timeout clienttimeout keepalivetimeout idletimeout", "timeouts = { client_idle = \"60s\" }"),
            ("balance algorithm lbpolicy loadbalancing", BALANCE),
            ("accesslog log", "access_log = { path = \"-\" } in [telemetry]"),
            (
                "endpoints servers server upstreams targets",
                "endpoints = [\"10.0.0.1:8080\"] in [pool.NAME], and pool = \"NAME\" here",
            ),
            ("rewrite stripprefix", REWRITE),
            ("clientmaxbodysize maxbodysize maxrequestbodysize maxrequestbodybytes requestbody bodymax", BODY_MAX),
            ("cors accesscontrolalloworigin alloworigin alloworigins", CORS),
            ("gzip compression compress encode brotli zstd compressor", COMPRESS),
            ("root", NOT_YET),
            ("middlewares filters", FILTERS),
            ("errorpage", "error_pages = [{ status = [\"5xx\"], file = \"/etc/evenkeel/5xx.html\" }]"),
            ("auth", AUTH),
            (
                "redirect redirecttohttps httpsredirect forcehttps forcessl redirectscheme redir",
                "redirect_https = true, on a listener without tls",
            ),
            ("allow deny ipallowlist ipwhitelist sourcerange", ACCESS),
            ("authbasic basicauth authbasicuserfile", PASSWORDS),
            ("headers header addheader setheader moreheaders customrequestheaders", HEADERS),
            ("h3 quic altsvc", HTTP3),
            ("protocols", "tls = { protocols = [<\"h2\", \"http/1.1\">] }, beside its certificates"),
            (
                "insecureskipverify",
                "tls = { verify = false } of the pool, not of a listener; ca = \"FILE.pem\" is safer",
            ),
        ],
    ),
    (
        "[[route]]",
        &[
            ("path", "match = { path = <\"/api\"> }"),
            ("prefix pathprefix pathbeg location uri url", "match = { prefix = <\"/api\"> }"),
            ("host hosts hostname domain domains servername", "match = { host = [<\"www.example.com\">] }"),
            ("listener listeners entrypoint entrypoints frontend", "match = { listener = [<\"web\">] }"),
            ("alpn", "match = { alpn = [<\"h2\">] }"),
            (
                "rule matcher matchers matches condition if when acl",
                "match = { host = [\"www.example.com\"], prefix = \"/api\" }",
            ),
            (
                "backend service upstream upstreams cluster usebackend defaultbackend proxypass to target forwardto reverseproxy action destination",
                "pool = <\"NAME\">",
            ),
            ("priority", "order = <1>, which decides between equally specific routes only; the lowest wins"),
            (
                "method methods query cookie",
                "match = { method = [\"GET\"], query = { v = \"2\" }, cookie = { beta = \"yes\" } }",
            ),
            ("stripprefix prefixrewrite handlepath addprefix replacepath", REWRITE),
            (
                "middlewares filters",
                "use = [\"NAME\"] with [filters.NAME], or filters of the route itself, such as request_headers",
            ),
            ("plugins", NOT_YET),
            ("gzip compression encode brotli zstd compressor gziptypes gzipminlength gzipcomplevel", COMPRESS),
            ("auth authentication authenticate", AUTH),
            ("jwtauth jwtauthn jwtauthentication authjwt bearer bearerauth oidc jwks token tokens", JWT),
            (
                "clientmaxbodysize maxbodysize maxrequestbodysize maxrequestbodybytes requestbody bodysize buffering",
                "body_max = <\"10MB\">",
            ),
            (
                "accesscontrolalloworigin alloworigin alloworigins alloworiginstringmatch accesscontrolalloworiginlist corspolicy",
                "cors = { origins = [\"https://a.example\"] }",
            ),
            ("authbasic basicauth authbasicuserfile httpauth", PASSWORDS),
            (
                "authrequest extauthz externalauth externalauthorization authurl",
                "forward_auth = { pool = \"auth\", path = \"/verify\" }",
            ),
            (
                "requestmirror requestmirrorpolicies requestmirrorpolicy mirroring shadow",
                "mirror = { pool = <\"NAME\">, share = 0.1 }",
            ),
            (
                "limitrate bwlim bwlimout bwlimin bandwidthlimit setbandwidthlimit ratelimitbandwidth",
                "bandwidth = <\"2MB\">, for each connection, or bandwidth = { download = \"50MB\" } for the route",
            ),
            (
                "proxyredirect proxycookiepath restorepath",
                "restore_prefix = true, beside strip_prefix or rewrite = { prefix = \"/v2\" }",
            ),
            ("hostrewrite preservehost passhostheader", "send_host = \"client\", \"endpoint\" or a fixed host"),
            ("redir redirectscheme redirectto", "redirect = <\"https://{host}{path}\">"),
            ("return directresponse fixedresponse staticresponse", "respond = <403>"),
            ("weightedclusters trafficsplit splitclients", "split = { weights = { stable = 95, canary = 5 } }"),
            (
                "weight",
                "a key of an endpoint: endpoints = [{ addr = \"10.0.0.1:8080\", weight = 2 }] in the pool; or split = { weights = \
                 { stable = 95, canary = 5 } } between pools",
            ),
            ("allow deny ipallowlist ipwhitelist denylist blacklist", ACCESS),
            ("ratelimit rate rps limitreq requests", "limits = [{ requests = \"100/s\", key = \"client\" }]"),
            ("limitconn inflight inflightreq", "limits = [{ in_flight = <20>, key = \"client\" }]"),
            ("headers addheader setheader requestheaders responseheaders header", HEADERS),
            ("retryon", RETRY_ON),
            ("numretries maxretries", ATTEMPTS),
            ("pertrytimeout trytimeout", TRY_TIMEOUT),
            ("timeout requesttimeout", "timeouts = { request = <\"30s\"> }"),
            ("retries retrypolicy", RETRY),
            ("id route", "name = <\"NAME\">"),
            ("balance algorithm lbpolicy", BALANCE),
        ],
    ),
    (
        "match of [[route]]",
        &[
            ("pathprefix location uri url", "prefix = <\"/api\">"),
            ("pathbeg beginswith", "prefix = <\"/api\"> by segment, or starts_with by text"),
            ("pathend endswith", "ends_with = <\".php\">"),
            (
                "hosts hostname hostnames domain domains servername sni authority hdrhost",
                "host = [<\"www.example.com\">]",
            ),
            ("exact pathexact", "path = <\"/api\">"),
            (
                "pathregex pathregexp regexp saferegex pathreg pathsub",
                "regex = <\"/u/[0-9]+\">, for the whole path; fixed text, {name} for one segment and prefix cost less",
            ),
            ("hostregexp hostregex", "none: name each host, or write host = [\"*.example.com\"]"),
            ("methods", "method = [<\"GET\">]"),
            ("headers", "header = { <X-Canary = \"1\"> }"),
            ("queryparameters queryparams", "query = { <v = \"2\"> }"),
            ("cookies", "cookie = { <beta = \"yes\"> }"),
            ("src sourceip clientip remoteip", "client = [<\"10.0.0.0/8\">]"),
            ("listeners entrypoint entrypoints frontend", "listener = [<\"web\">]"),
        ],
    ),
    (
        "forward_auth of [[route]]",
        &[
            ("address url service upstream backend cluster", "pool = <\"NAME\">, the pool of the service"),
            ("uri", "path = <\"/verify\">"),
            ("authrequestheaders allowedheaders", "request_headers = [<\"Cookie\">]"),
            ("authresponseheaders responseheaders allowedupstreamheaders", "copy_headers = [<\"X-User\">]"),
            ("failuremodeallow failopen", "nothing: without an answer, no request passes"),
        ],
    ),
    (
        "mirror of [[route]]",
        &[
            ("cluster backend service upstream name", "pool = <\"NAME\">"),
            ("percent percentage fraction runtimefraction weight", "share = <0.1>, from 0 to 1"),
            ("maxbodysize", "body_max = <\"64KB\">"),
        ],
    ),
    (
        "compress of [[route]]",
        &[
            ("algo algorithm encodings encoding formats", "algorithms = [<\"zstd\", \"gzip\">]"),
            ("type contenttypes contenttype includedcontenttypes gziptypes mime mimetypes", "types = [<\"text/*\">]"),
            (
                "minimumlength minlen minsize minresponsebodybytes mincontentlength gzipminlength minimumsize",
                "min_length = <\"1KiB\">",
            ),
            ("complevel gzipcomplevel compressionlevel quality", "level = <\"fast\">, or level = { gzip = 5 }"),
        ],
    ),
    (
        "cors of [[route]]",
        &[
            (
                "alloworigins alloworigin origin allowedorigins alloworiginstringmatch accesscontrolalloworiginlist",
                "origins = [<\"https://a.example\">]",
            ),
            ("allowmethods allowedmethods method accesscontrolallowmethods", "methods = [<\"PUT\">]"),
            ("allowheaders allowedheaders header accesscontrolallowheaders", "headers = [<\"X-A\">]"),
            ("exposeheaders exposedheaders accesscontrolexposeheaders", "expose = [<\"X-B\">]"),
            ("allowcredentials accesscontrolallowcredentials", "credentials = <true>"),
            ("accesscontrolmaxage", "max_age = <\"5s\">"),
        ],
    ),
    (
        "[pool.NAME]",
        &[
            (
                "server servers target targets node nodes member members host hosts address addresses addrs upstream upstreams backend backends instances urls loadassignment lbendpoints to",
                ENDPOINTS,
            ),
            (
                "algorithm lb lbpolicy lbalgorithm lbmethod policy method strategy loadbalancing loadbalancer balancer",
                ALGORITHM,
            ),
            ("path pathprefix prefix location locations", "match = { prefix = <\"/api\"> } of a [[route]]"),
            ("option options", "health, retry, sticky or timeouts, each a key of the pool; docs/guide/coming-from.md"),
            ("iphash sourcehash", "balance = { maglev = { key = \"client-ip\" } }"),
            (
                "hash urihash consistenthash ringhash hashpolicy hashtype",
                "balance = { maglev = { key = \"path\" } }, or another key: \"client-ip\", \"header:NAME\", \"cookie:NAME\", \"query:NAME\"",
            ),
            ("leastconn leastrequest", "balance = \"leastconn\""),
            ("leasttime", "balance = \"peak_ewma\""),
            ("roundrobin", "balance = \"round_robin\""),
            ("random", "balance = \"random\""),
            (
                "backup backups",
                "backup = true of an endpoint: endpoints = [{ addr = \"10.0.0.9:8080\", backup = true }]",
            ),
            (
                "weight priority",
                "a key of an endpoint: endpoints = [{ addr = \"10.0.0.1:8080\", weight = 2, priority = 0 }]",
            ),
            (
                "maxconn maxconns maxconnections maxrequests maxinflight circuitbreaker circuitbreakers",
                "limits = { requests_per_endpoint = <100> }",
            ),
            ("check checks healthcheck healthchecks httpchk healthuri active activehealth", HEALTH),
            (
                "maxfails failtimeout outlierdetection passive passivehealthcheck passivehealth unhealthystatus errorlimit observe",
                OUTLIER,
            ),
            (
                "cookie stick sticktable stickon session persistence stickysession affinity sessionaffinity",
                "sticky = { secret_file = \"/etc/evenkeel/sticky.key\" }: a signed cookie of its own",
            ),
            ("redispatch proxynextupstream lbtryduration retries retrypolicy tries", RETRY),
            ("retryon", RETRY_ON),
            ("numretries maxretries", ATTEMPTS),
            ("pertrytimeout trytimeout", TRY_TIMEOUT),
            ("baseejectiontime ejectiontime", EJECT),
            ("maxejectionpercent maxejection", EJECT_AT_MOST),
            ("insecureskipverify insecure skipverify tlsinsecureskipverify", INSECURE),
            ("http3 h3 quic", HTTP3),
            ("allow deny", ACCESS),
            ("headers addheader setheader header", HEADERS),
            ("consul", CONSUL),
            ("nomad", NOMAD),
            ("docker podman", DOCKER),
            ("etcd", ETCD),
            ("xds eds edsclusterconfig", XDS),
            ("kubernetes k8s", KUBERNETES),
            (
                "timeout connecttimeout proxyconnecttimeout proxyreadtimeout readtimeout responsetimeout serverstransport",
                "timeouts = { connect = \"1s\", response = \"30s\" }",
            ),
            ("timeoutclientfin timeoutserverfin clientfin serverfin", "timeouts = { half_closed = <\"30s\"> }"),
            ("timeouttunnel tunneltimeout", "timeouts = { idle = <\"1h\"> }"),
            ("srv", "discover = { dns = { name = <\"_http._tcp.web.internal\">, type = \"SRV\" } }"),
            ("warmup slowstartconfig slowstartwindow", "slow_start = <\"30s\">"),
            ("keepalive idle maxidleconns keepaliveconns", "limits = { idle_per_endpoint = <32> }"),
            (
                "resolver resolvers dns dynamic servertemplate",
                "discover = { dns = { name = <\"web.internal\">, port = 8080 } }, with the port of the endpoints",
            ),
            ("clientmaxbodysize maxbodysize maxrequestbodysize bodymax", BODY_MAX),
            ("zone", "nothing: all workers of a process share their counts"),
            ("mode", "mode of [listener.NAME]: a pool serves any listener that uses it"),
            ("ssl verify sni cafile upstreamtls transport", POOL_TLS),
            ("sendproxy sendproxyv2", "proxy_protocol = \"v2\""),
            ("maxqueue timeoutqueue", "queue = { max = 1024, timeout = \"2s\" }"),
            ("panicthreshold healthypanicthreshold", "panic = { healthy_below = 0.5 }"),
            ("zoneaware localityweighted localityaware", "locality = { zone = \"a\" }, with a zone of each endpoint"),
            ("passhostheader hostheader", "nothing: Host is forwarded unchanged"),
        ],
    ),
    (
        "endpoints of [pool.NAME]",
        &[
            ("address hostname ip url server target dial uri endpoint", "addr = <\"10.0.0.1:8080\">"),
            ("port", "a part of addr: addr = \"HOST:PORT\""),
            ("sni servername", "tls_name = <\"app.internal\">, with tls = true in the pool"),
            ("maxconn maxconns maxconnections maxrequests", REQUESTS),
            ("down disabled disable maintenance draining", "drain = true"),
            ("check checks inter rise fall health healthcheck", "health = { http = \"/healthz\" } of the pool"),
            (
                "maxfails failtimeout",
                "outlier = { consecutive_5xx = 5 } of the pool; it is on unless outlier = \"off\"",
            ),
            ("cookie", STICKY),
            ("slowstart", "slow_start = <\"30s\"> of the pool"),
            ("sendproxy proxyprotocol", "proxy_protocol = \"v2\" of the pool"),
            ("id label", "name = <\"NAME\">"),
            ("ssl tls verify", POOL_TLS),
        ],
    ),
    (
        "health of [pool.NAME]",
        &[
            ("path uri url endpoint healthuri httppath", "http = <\"/healthz\">"),
            (
                "method status expect host expectedstatus expectstatus",
                "a part of http: http = { path = \"/healthz\", expect = [200] }",
            ),
            ("inter every period", "interval = <\"2s\">"),
            ("failures fails failthreshold unhealthythreshold maxfails", "fall = <3>"),
            ("successes passes healthythreshold", "rise = <2>"),
            ("type mode protocol", "the key itself: http = \"/healthz\", tcp = {} or udp = { send = \"ping\" }"),
            ("enabled", "nothing: checks are on when they are set"),
        ],
    ),
    (
        "outlier of [pool.NAME]",
        &[
            ("baseejectiontime ejectiontime ejectfor failtimeout", "eject = <\"30s\">"),
            ("maxejectiontime", "eject_max = <\"5m\">"),
            ("maxejectionpercent", "eject_at_most = <0.3>, a share of the pool"),
            ("consecutivegatewayfailure consecutivegatewayerrors", "consecutive_gateway = <5>"),
            (
                "maxfails consecutiveerrors consecutive5xxerrors",
                "consecutive_gateway = <5>, or consecutive_5xx for any 5xx",
            ),
            ("consecutivelocaloriginfailure", "consecutive_connect = <3>"),
            ("enabled", "nothing: ejection is on unless outlier = \"off\""),
        ],
    ),
    ("retry of [pool.NAME]", OF_RETRY),
    ("retry of [[route]]", OF_RETRY),
    ("[defaults.retry]", OF_RETRY),
    (
        "discover of [pool.NAME]",
        &[
            ("srv", "dns = { name = <\"_http._tcp.web.internal\">, type = \"SRV\" }"),
            (
                "name hostname host a",
                "dns = { name = <\"web.internal\">, port = 8080 }, with the port of the endpoints",
            ),
            (
                "service",
                "kubernetes = { service = <\"web\"> }, consul = { service = <\"web\"> }, nomad = { service = <\"web\"> }",
            ),
            ("podman container", "docker = { labels = [<\"evenkeel.pool=web\">] }"),
            ("url", "http = { url = <\"http://127.0.0.1:9000/web.json\"> }"),
            ("k8s", "kubernetes = { service = <\"web\">, port = \"http\" }"),
            ("eds ads", "xds = { cluster = <\"web\"> }"),
            ("zookeeper eureka", OTHERS),
            ("path", "file = <\"/etc/evenkeel/endpoints.json\">"),
        ],
    ),
    (
        "tls of [listener.NAME]",
        &[
            (
                "cert crt certfile certificate sslcertificate",
                "certificates = [{ cert = <\"FILE.pem\">, key = <key|\"FILE.key\"> }]",
            ),
            (
                "key keyfile privatekey sslcertificatekey",
                "certificates = [{ cert = <cert|\"FILE.pem\">, key = <\"FILE.key\"> }]",
            ),
            ("alpn", "protocols = [<\"h2\", \"http/1.1\">]"),
            ("acme letsencrypt auto", "certificates = [{ acme = [\"www.example.com\"] }], and [acme]"),
            ("insecureskipverify", "nothing: to endpoints, it is tls = { verify = false } of the pool"),
            ("clientca cafile ca", "client_auth = { ca = <\"FILE.pem\"> }"),
            ("minversion sslprotocols", "min_version = \"1.2\" or \"1.3\""),
            ("http3 quic", HTTP3),
        ],
    ),
    (
        "tls of [pool.NAME]",
        &[
            (
                "insecureskipverify insecure skipverify",
                "verify = false, which trusts any endpoint; ca = \"FILE.pem\" is safer",
            ),
            ("cafile cacert rootca rootcas trustedca", "ca = <\"FILE.pem\">"),
            ("sni servername verifyhost", "server_name = <\"NAME\">"),
            ("crt clientcert certfile", "cert = <\"FILE.pem\">, with key"),
            ("enabled", "nothing: tls = true turns it on"),
        ],
    ),
    (
        "limits of [pool.NAME]",
        &[
            (
                "connectionsperendpoint",
                "requests_per_endpoint = <100>; over HTTP/2, http2 = { connections = 64 } of the pool limits connections",
            ),
            (
                "maxconn maxconns connections maxconnections maxrequests requests inflight",
                "requests_per_endpoint = <100>",
            ),
            ("keepalive idle maxidle", "idle_per_endpoint = <32>"),
        ],
    ),
    (
        "limits of [[route]]",
        &[
            ("rate rps ratelimit average limitreq", "requests = <\"100/s\">"),
            ("maxconn connections concurrency maxinflight", "in_flight = <20>"),
            (
                "source sourcecriterion zone by",
                "key = \"client\", or another: \"header:NAME\", \"cookie:NAME\", \"route\"",
            ),
        ],
    ),
    (
        "entry of error_pages",
        &[
            ("code codes statuscode error errorcode", "status = [503]"),
            ("page url", "file = <\"/etc/evenkeel/503.html\">"),
        ],
    ),
    (
        "limits of [listener.NAME]",
        &[
            ("maxconn maxconnections", "connections = <10000>"),
            (
                "ratelimit rate rps limitreq requests",
                "requests_per_address = <100>, requests a second of each client; a [[route]] has limits = [{ requests = \"100/s\" }]",
            ),
            ("clientmaxbodysize maxbodysize body bodymax", BODY_MAX),
            ("limitconn", "connections_per_address = <20>"),
            ("burst", "burst_per_address = <200>"),
            ("h2streams streams maxconcurrentstreams", "http2 = { streams = <100> } of the listener"),
        ],
    ),
    (
        "[runtime]",
        &[
            ("nbthread nbproc threads workerprocesses concurrency", "workers = <4>"),
            ("maxconn workerconnections", "limits = { connections = <10000> } in [listener.NAME]"),
            (
                "hardstopafter gracefultimeout shutdowntimeout draintime workershutdowntimeout graceperiod",
                "drain_timeout = <\"30s\">",
            ),
            ("user group chroot daemon pidfile pid", "none: the service manager sets it, as User= of a systemd unit"),
            ("statedir statefile", "state = \"/var/lib/evenkeel/state\", a file and not a folder"),
            ("loglevel", "log = { level = <\"info\"> }"),
            ("statssocket", "bind = \"unix:/run/evenkeel/admin.sock\" in [admin]"),
        ],
    ),
    (
        "[admin]",
        &[
            ("port address addr listen", "http = { bind = \"127.0.0.1:9900\" }"),
            ("socket unix statssocket", "bind = \"unix:/run/evenkeel/admin.sock\""),
            ("path metricspath", "metrics = { path = \"/metrics\" } in [telemetry]"),
        ],
    ),
    (
        "http of [admin]",
        &[
            (
                "tokenfile token auth",
                "read_token = \"/etc/evenkeel/read.token\" for read access, and write_token for changes",
            ),
            ("allowwrite readonly", "write_token = \"/etc/evenkeel/write.token\": clients with it can make changes"),
        ],
    ),
    (
        "access_log of [telemetry]",
        &[(
            "sample samplerate sampling",
            "evenkeel does not sample its access log yet: leave this out; every request is logged",
        )],
    ),
    (
        "[telemetry]",
        &[
            ("log logs accesslogs logging", "access_log = { path = \"-\" }"),
            ("tracing trace opentelemetry otel otlp", "traces = { endpoint = \"http://127.0.0.1:4318\" }"),
            ("prometheus", "metrics; they are served by http = { bind = \"127.0.0.1:9900\" } in [admin]"),
        ],
    ),
];
