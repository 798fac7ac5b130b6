//! Directives of NGINX that have no counterpart. Each row has the name of a directive and its treatment.

use super::lexer::Directive;
use crate::ledger::Ledger;

/// Treatment of a directive that is not translated.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// Left out without a loss, for this reason.
    Lossless(&'static str),
    /// Left out with a difference: the reason, and advice.
    Changes(&'static str, &'static str),
}

use Fate::{Changes, Lossless};

const SERVICE: &str = "the service unit does it";
const WORKERS: &str = "evenkeel runs one worker for each core; `runtime.workers` sets another number";
const MACHINERY: &str = "it tunes NGINX's own machinery";
const BUFFERS: &str = "bodies pass through as they come, in buffers with fixed bounds";
const FILES: (&str, &str) = ("no files are served from disk", "keep a web server for them, as a pool of its own");
const GUNZIP: (&str, &str) =
    ("responses are not decompressed", "request_headers = { remove = [\"Accept-Encoding\"] } in the [[route]]");
const CACHE: (&str, &str) = (
    "responses of FastCGI, uwsgi and SCGI are not stored, and no files are written",
    "have the application speak HTTP: `cache` of a [[route]]",
);
const FASTCGI: (&str, &str) = (
    "FastCGI, uwsgi, SCGI and memcached are not spoken",
    "have the application speak HTTP, or keep a web server for it",
);
const CIPHERS: &str = "ciphers and curves are those of rustls, all of which are safe";
const SCRIPT: (&str, &str) = (
    "scripts are not supported",
    "find out what it is for: fields, redirects, CORS and authentication are keys of a route",
);

#[rustfmt::skip] // a row is a directive
const ROWS: &[(&str, Fate)] = &[
    ("user", Lossless(SERVICE)), ("pid", Lossless(SERVICE)), ("daemon", Lossless(SERVICE)), ("worker_rlimit_nofile", Lossless(SERVICE)),
    ("worker_rlimit_core", Lossless(SERVICE)), ("working_directory", Lossless(SERVICE)), ("lock_file", Lossless(SERVICE)),
    ("master_process", Lossless(SERVICE)), ("env", Lossless("the environment is set by the service unit")),
    ("worker_processes", Lossless(WORKERS)), ("worker_cpu_affinity", Lossless(WORKERS)), ("worker_priority", Lossless(SERVICE)),
    ("worker_connections", Lossless("`limits.connections` of a listener is 50,000")), ("worker_aio_requests", Lossless(MACHINERY)),
    ("worker_shutdown_timeout", Lossless("`runtime.drain_timeout` is 30 s")), ("pcre_jit", Lossless(MACHINERY)), ("thread_pool", Lossless(MACHINERY)),
    ("timer_resolution", Lossless(MACHINERY)), ("use", Lossless(MACHINERY)), ("multi_accept", Lossless(MACHINERY)), ("accept_mutex", Lossless(MACHINERY)),
    ("accept_mutex_delay", Lossless(MACHINERY)), ("debug_connection", Lossless("`evenkeel explain` and `tap` show requests")),
    ("sendfile", Lossless(MACHINERY)), ("sendfile_max_chunk", Lossless(MACHINERY)), ("tcp_nopush", Lossless(MACHINERY)), ("tcp_nodelay", Lossless("always so")),
    ("aio", Lossless(MACHINERY)), ("aio_write", Lossless(MACHINERY)), ("directio", Lossless(MACHINERY)), ("output_buffers", Lossless(MACHINERY)),
    ("postpone_output", Lossless(MACHINERY)), ("server_names_hash_bucket_size", Lossless(MACHINERY)), ("server_names_hash_max_size", Lossless(MACHINERY)),
    ("types_hash_max_size", Lossless(MACHINERY)), ("types_hash_bucket_size", Lossless(MACHINERY)), ("variables_hash_max_size", Lossless(MACHINERY)),
    ("variables_hash_bucket_size", Lossless(MACHINERY)), ("map_hash_bucket_size", Lossless(MACHINERY)), ("map_hash_max_size", Lossless(MACHINERY)),
    ("proxy_headers_hash_max_size", Lossless(MACHINERY)), ("proxy_headers_hash_bucket_size", Lossless(MACHINERY)), ("zone", Lossless("counts hold over all workers")),
    ("connection_pool_size", Lossless(MACHINERY)), ("request_pool_size", Lossless(MACHINERY)), ("reset_timedout_connection", Lossless(MACHINERY)),
    ("lingering_close", Lossless("always so")), ("lingering_time", Lossless(MACHINERY)), ("lingering_timeout", Lossless(MACHINERY)),
    ("open_file_cache", Lossless("no files are served")), ("open_file_cache_valid", Lossless("no files are served")),
    ("open_file_cache_min_uses", Lossless("no files are served")), ("open_file_cache_errors", Lossless("no files are served")),
    ("log_not_found", Lossless("no files are served")), ("types", Lossless("no files are served")),
    ("server_tokens", Lossless("no field names the program")), 
    
    ("etag", Lossless("the endpoint sets it")), ("if_modified_since", Lossless("the endpoint decides it")), 
    ("source_charset", Lossless("the endpoint states it")), ("chunked_transfer_encoding", Lossless("always on")), ("max_ranges", Lossless("the endpoint decides it")),
    ("ignore_invalid_headers", Changes("malformed fields are refused", "nothing, unless clients send them")),
    ("client_header_buffer_size", Lossless("`limits.headers` is 32KiB")),
    ("client_body_buffer_size", Lossless(BUFFERS)), ("client_body_temp_path", Lossless(BUFFERS)), ("client_body_in_file_only", Lossless(BUFFERS)),
    ("client_body_in_single_buffer", Lossless(BUFFERS)), ("proxy_buffering", Lossless(BUFFERS)), ("proxy_buffers", Lossless(BUFFERS)), ("proxy_buffer_size", Lossless(BUFFERS)),
    ("proxy_busy_buffers_size", Lossless(BUFFERS)), ("proxy_max_temp_file_size", Lossless(BUFFERS)), ("proxy_temp_file_write_size", Lossless(BUFFERS)),
    ("proxy_temp_path", Lossless(BUFFERS)), ("proxy_request_buffering", Lossless(BUFFERS)), ("preread_buffer_size", Lossless(BUFFERS)),
    ("preread_timeout", Lossless("`timeouts.client_header` is 10 s")), ("proxy_buffer", Lossless(BUFFERS)), ("grpc_buffer_size", Lossless(BUFFERS)),
    ("proxy_http_version", Lossless("HTTP/1.1 is always spoken; protocol = \"h2\" of a pool sets HTTP/2")), ("proxy_send_lowat", Lossless(MACHINERY)),
    ("proxy_socket_keepalive", Lossless("the kernel looks after idle sessions")), ("proxy_ignore_client_abort", Lossless("a request whose client has gone is ended")),
    ("proxy_pass_header", Lossless("all fields of endpoints pass")), ("proxy_pass_request_headers", Changes("fields of requests always pass", "name those to take out in request_headers.remove")),
    ("proxy_pass_request_body", Changes("bodies of requests always pass", "nothing, unless the endpoint refuses them")),
    ("proxy_headers", Lossless(MACHINERY)), ("proxy_limit_rate", Changes("endpoints are read as fast as clients take it", "`bandwidth` bounds responses")),
    ("proxy_send_timeout", Lossless("`timeouts.idle` covers both directions")), ("send_timeout", Lossless("`timeouts.idle` covers both directions")),
    ("grpc_send_timeout", Lossless("`timeouts.idle` covers both directions")), ("keepalive_disable", Lossless("no browser of today needs it")),
    ("keepalive_requests", Lossless("connections are not closed after a number of requests")), ("keepalive_time", Lossless("connections are not closed while they are used")),
    ("keepalive_min_timeout", Lossless(MACHINERY)), ("http2_max_field_size", Lossless("`limits.headers` is 32KiB")), ("http2_max_header_size", Lossless("`limits.headers` is 32KiB")),
    ("http2_max_requests", Lossless("connections are not closed after a number of requests")), ("http2_recv_timeout", Lossless("pings find clients that are gone")),
    ("http2_idle_timeout", Lossless("`timeouts.client_idle` is 60 s")), ("http2_chunk_size", Lossless(MACHINERY)), ("http2_body_preread_size", Lossless(MACHINERY)),
    ("http2_push", Lossless("browsers do not take pushed responses any more")), ("http2_push_preload", Lossless("browsers do not take pushed responses any more")),
    ("http2", Lossless("HTTP/2 is on wherever TLS is")), ("http3_hq", Changes("only HTTP/3 is spoken over QUIC", "nothing")),
    ("quic_gso", Lossless(MACHINERY)), ("quic_bpf", Lossless(MACHINERY)), ("quic_host_key", Lossless(MACHINERY)), ("quic_active_connection_id_limit", Lossless(MACHINERY)), ("http3_stream_buffer_size", Lossless(MACHINERY)),
    ("ssl_ciphers", Lossless(CIPHERS)), ("ssl_prefer_server_ciphers", Lossless(CIPHERS)), ("ssl_ecdh_curve", Lossless(CIPHERS)), ("ssl_dhparam", Lossless("rustls does not use DHE")),
    ("ssl_conf_command", Lossless(CIPHERS)), ("ssl_session_cache", Lossless("sessions resume by tickets")), ("ssl_session_timeout", Lossless("sessions resume by tickets")),
    ("ssl_session_tickets", Lossless("tickets have keys that live in memory, for six hours")), ("ssl_session_ticket_key", Changes("tickets have keys of their own", "write tls.ticket_keys with the files")),
    ("ssl_buffer_size", Lossless(MACHINERY)), ("ssl_early_data", Changes("requests are not taken from early data", "nothing: clients send them again")),
    ("ssl_stapling", Changes("OCSP responses are stapled from a file", "write ocsp beside the certificate, or nothing: most authorities have ended OCSP")),
    ("ssl_stapling_verify", Lossless("stapled responses are always verified")), ("ssl_stapling_file", Changes("OCSP responses are stapled from a file", "write ocsp beside the certificate")),
    ("ssl_verify_depth", Changes("chains of client certificates have no bound", "nothing, unless a client has a certificate of an authority below the one that it names")), ("ssl_password_file", Changes("keys with a password are not read", "decrypt the key: openssl pkey")),
    ("ssl", Changes("it is written in `listen`", "write `listen 443 ssl`, and convert again")),
    ("ssl_handshake_timeout", Lossless("`tls.handshake_timeout` is 10 s")),
    ("proxy_ssl_ciphers", Lossless(CIPHERS)), ("proxy_ssl_session_reuse", Lossless("sessions resume by tickets")), ("proxy_ssl_verify_depth", Lossless("chains have a bound of their own")),
    ("proxy_ssl_protocols", Lossless("TLS 1.2 is the oldest version that is spoken")), ("proxy_ssl_conf_command", Lossless(CIPHERS)),
    ("root", Changes(FILES.0, FILES.1)), ("alias", Changes(FILES.0, FILES.1)), ("index", Changes(FILES.0, FILES.1)), ("autoindex", Changes(FILES.0, FILES.1)),
    ("autoindex_exact_size", Changes(FILES.0, FILES.1)), ("autoindex_localtime", Changes(FILES.0, FILES.1)), ("autoindex_format", Changes(FILES.0, FILES.1)),
    ("disable_symlinks", Changes(FILES.0, FILES.1)), ("random_index", Changes(FILES.0, FILES.1)), ("empty_gif", Changes(FILES.0, FILES.1)), ("slice", Changes(FILES.0, FILES.1)),
    ("mp4", Changes(FILES.0, FILES.1)), ("flv", Changes(FILES.0, FILES.1)), ("dav_methods", Changes(FILES.0, FILES.1)), ("gzip_static", Changes(FILES.0, FILES.1)),
    ("gzip_buffers", Lossless(MACHINERY)), ("gzip_http_version", Lossless(MACHINERY)),
    ("gzip_disable", Lossless("no browser of today needs it")), ("gunzip", Changes(GUNZIP.0, GUNZIP.1)),
    ("brotli_static", Changes(FILES.0, FILES.1)),
    ("proxy_cache_purge", Changes("clients cannot purge", "`evenkeel cache purge`, or POST /v1/cache/purge of the admin API")),
    ("proxy_store", Changes(CACHE.0, CACHE.1)), ("proxy_store_access", Changes(CACHE.0, CACHE.1)), ("fastcgi_cache_path", Changes(CACHE.0, CACHE.1)), ("fastcgi_cache", Changes(CACHE.0, CACHE.1)),
    ("fastcgi_param", Changes(FASTCGI.0, FASTCGI.1)), ("fastcgi_index", Changes(FASTCGI.0, FASTCGI.1)), ("fastcgi_split_path_info", Changes(FASTCGI.0, FASTCGI.1)),
    ("fastcgi_read_timeout", Changes(FASTCGI.0, FASTCGI.1)), ("fastcgi_buffers", Changes(FASTCGI.0, FASTCGI.1)), ("fastcgi_buffer_size", Changes(FASTCGI.0, FASTCGI.1)),
    ("fastcgi_intercept_errors", Changes(FASTCGI.0, FASTCGI.1)), ("fastcgi_hide_header", Changes(FASTCGI.0, FASTCGI.1)), ("fastcgi_request_buffering", Changes(FASTCGI.0, FASTCGI.1)),
    ("fastcgi_connect_timeout", Changes(FASTCGI.0, FASTCGI.1)), ("fastcgi_send_timeout", Changes(FASTCGI.0, FASTCGI.1)), ("fastcgi_max_temp_file_size", Changes(FASTCGI.0, FASTCGI.1)),
    ("uwsgi_param", Changes(FASTCGI.0, FASTCGI.1)), ("uwsgi_read_timeout", Changes(FASTCGI.0, FASTCGI.1)), ("scgi_param", Changes(FASTCGI.0, FASTCGI.1)),
    ("auth_delay", Lossless("guesses are bounded by limits")),
    
    ("limit_rate_after", Changes("bandwidth is bounded from the first byte", "nothing")),
    ("limit_req_log_level", Lossless("refused requests are in the access log and in metrics")), ("limit_conn_log_level", Lossless("refused requests are in the access log and in metrics")),
    
    ("sub_filter", Changes("bodies are not changed", "have the application send what is meant")), ("sub_filter_once", Changes("bodies are not changed", "have the application send what is meant")),
    ("sub_filter_types", Changes("bodies are not changed", "have the application send what is meant")), ("ssi", Changes("bodies are not changed", "have the application send what is meant")), ("addition_types", Changes("bodies are not changed", "have the application send what is meant")),
    ("add_before_body", Changes("bodies are not changed", "have the application send what is meant")), ("add_after_body", Changes("bodies are not changed", "have the application send what is meant")),
    ("image_filter", Changes("bodies are not changed", "have the application send what is meant")), ("xslt_stylesheet", Changes("bodies are not changed", "have the application send what is meant")),
    ("add_trailer", Changes("no trailers are added", "nothing, unless a client reads it")), ("add_header_inherit", Changes("routes have the fields that are written in them", "compare the response_headers of the routes")),
    ("proxy_cookie_path", Changes("the path of cookies is not changed", "restore_prefix = true in the [[route]], if it puts the prefix back")), ("proxy_cookie_domain", Changes("the domain of cookies is not changed", "have the application set it")),
    ("proxy_cookie_flags", Changes("it is written in another way", "cookies = { secure = true, http_only = true, same_site = \"lax\" } in the [[route]]")),
    ("proxy_bind", Changes("the source address of connections is the system's choice", "source = \"client\" of a pool, in TCP mode")), ("proxy_method", Changes("the method is not changed", "have the application accept it")),
    ("proxy_set_body", Changes("bodies are not changed", "have the application accept them")), 
    ("recursive_error_pages", Lossless("errors are not redirected")), ("stub_status", Changes("metrics are served by the admin's listener", "scrape /metrics at admin.http")),
    ("stub", Changes("metrics are served by the admin's listener", "scrape /metrics at admin.http")), ("status_zone", Lossless("metrics and the dashboard show every pool and route")), ("api", Changes("the API is served by the admin's listener", "see admin.http")),
    ("health_check", Changes("it is written in another way", "health = { http = \"/PATH\" } in the pool")), ("match", Changes("it is written in another way", "health.http.expect in the pool")),
    ("geoip2", Changes("addresses are not looked up in a database", "have the application do it")), ("geoip_country", Changes("addresses are not looked up in a database", "have the application do it")),
    ("split_clients", Changes("it is written in another way", "split = { weights = { stable = 95, canary = 5 } } in a [[route]]")), ("js_import", Changes(SCRIPT.0, SCRIPT.1)), ("js_content", Changes(SCRIPT.0, SCRIPT.1)), ("js_set", Changes(SCRIPT.0, SCRIPT.1)), ("js_path", Changes(SCRIPT.0, SCRIPT.1)),
    ("lua_package_path", Changes(SCRIPT.0, SCRIPT.1)), ("lua_shared_dict", Changes(SCRIPT.0, SCRIPT.1)), ("content_by_lua_block", Changes(SCRIPT.0, SCRIPT.1)), ("access_by_lua_block", Changes(SCRIPT.0, SCRIPT.1)), ("rewrite_by_lua_block", Changes(SCRIPT.0, SCRIPT.1)),
    ("content_by_lua_file", Changes(SCRIPT.0, SCRIPT.1)), ("access_by_lua_file", Changes(SCRIPT.0, SCRIPT.1)), ("init_by_lua_block", Changes(SCRIPT.0, SCRIPT.1)), ("perl", Changes(SCRIPT.0, SCRIPT.1)),
    ("load_module", Changes("modules are not loaded", "see what the module is for")), ("modsecurity_rules_file", Changes("modules are not loaded", "keep the firewall in front")),
    ("log_subrequest", Lossless("there are no subrequests")), ("rewrite_log", Lossless("`evenkeel explain` shows what happened to a request")), ("uninitialized_variable_warn", Lossless("unknown variables are errors of `check`")), ("open_log_file_cache", Lossless(MACHINERY)),
    ("ntlm", Changes("connections are not bound to clients", "proxy the service in TCP mode")), ("queue", Changes("it is written in another way", "queue = { max = N } in the pool")), ("state", Lossless("`runtime.state` keeps operators' orders")),
    ("keepalive_timeout_upstream", Lossless(MACHINERY)), ("resolver_timeout", Lossless("questions to name servers have a time limit")), ("real_ip_recursive", Lossless("always so: the client is the last address outside of trusted proxies")), ("proxy_requests", Changes("flows end when they are idle", "udp.answers of the listener")), ("msie_padding", Lossless("no browser of today needs it")), ("satisfy_any", Lossless(MACHINERY)),
];

/// True if the table has a directive.
pub(super) fn has(name: &str) -> bool {
    ROWS.iter().any(|(known, _)| *known == name)
}

/// Settles all directives below that the table has. Those in blocks of `if`, too.
pub(super) fn settle(all: &[Directive], ledger: &mut Ledger) {
    for directive in all {
        if let Some((_, fate)) = ROWS.iter().find(|(name, _)| *name == directive.name()) {
            treat(directive, *fate, ledger);
            continue;
        }
        settle(directive.inner(), ledger);
    }
}

fn treat(directive: &Directive, fate: Fate, ledger: &mut Ledger) {
    let is_off = directive.words.len() == 2 && directive.word(1) == "off";
    match fate {
        Fate::Lossless(reason) => ledger.dropped(directive.line, reason),
        Fate::Changes(..)
            if is_off && !directive.name().starts_with("proxy_pass_request") && directive.name() != "merge_slashes" =>
        {
            ledger.dropped(directive.line, "it turns off what is not there")
        }
        Fate::Changes(reason, todo) => ledger.changes(directive.line, reason, todo),
    }
    directive.inner().iter().for_each(|inner| treat(inner, fate, ledger));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directive_has_one_row() {
        for (at, (row, _)) in ROWS.iter().enumerate() {
            assert!(ROWS[at + 1..].iter().all(|(other, _)| other != row), "{row}");
        }
    }
}
