//! Fields of the resources that a control plane sends, as Envoy 1.40 has them (`envoy/config`, `envoy/extensions`,
//! `envoy/type`). See [`Message`].
//!
//! The tables name every field, even fields that cannot be kept, so that a refusal can name them. The translation reads
//! fields that are `kept`; a `kept` field that it does not read in this context is refused. `ignored` fields concern
//! logs, metrics, buffers, or things that evenkeel does anyway. `minor` fields are ignored in resources, and reported
//! in files. `noted` fields protect clients or endpoints, and are not kept: the resource is used, and the log and the
//! status name these fields once for each resource.
//!
//! Long because it is a single table.

use Kind::{Any, Encoded, Float, Number, Of, Raw, Text, Word};

/// Descriptor of a protobuf message, with every field of Envoy 1.40.
#[derive(Debug)]
pub struct Message {
    pub fields: &'static [Field],
}

#[derive(Debug)]
pub struct Field {
    pub tag: u32,
    pub name: &'static str,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `string`.
    Text,
    /// `bytes` that hold text. Files have them in base64, which is not read.
    Encoded,
    /// `bytes`, or a message of which only the presence matters.
    Raw,
    /// `bool` or an integer.
    Number,
    /// Enum, with its names by number.
    Word(&'static [&'static str]),
    /// `double`.
    Float,
    Of(&'static Message),
    /// `google.protobuf.Any`, of a type of [`EXTENSIONS`].
    Any,
    Ignored,
    /// Difference that clients or endpoints may notice, such as a field that only Envoy adds. A resource is used without
    /// it, and a file's is reported.
    Minor,
    /// Protection that is not kept. Counts if it is set: to another number than 0, or to a message that is not empty.
    Noted,
    Refused,
}

macro_rules! messages {
    ($($message:ident { $($rule:ident: $($tag:literal $field:ident $($kind:ident $(($of:expr))?)?),*;)* })*) => {
        $(pub static $message: Message = Message {
            fields: &[$($(Field { tag: $tag, name: stringify!($field), kind: messages!(@ $rule $($kind $(($of))?)?) }),*),*],
        };)*
    };
    (@ kept $($kind:tt)*) => { $($kind)* };
    (@ ignored) => { Kind::Ignored };
    (@ minor) => { Kind::Minor };
    (@ noted) => { Kind::Noted };
    (@ refused) => { Kind::Refused };
}

/// Types that `typed_config` may have.
pub static EXTENSIONS: &[(&str, &Message)] = &[
    ("envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", &MANAGER),
    ("envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", &TCP_PROXY),
    ("envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext", &DOWNSTREAM_TLS),
    ("envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext", &UPSTREAM_TLS),
    ("envoy.extensions.upstreams.http.v3.HttpProtocolOptions", &UPSTREAM_HTTP),
    ("envoy.config.listener.v3.Listener", &LISTENER),
    ("envoy.config.route.v3.RouteConfiguration", &ROUTE_CONFIGURATION),
    ("envoy.config.cluster.v3.Cluster", &CLUSTER),
];

/// Names of enums, by their numbers.
mod words {
    pub const CODECS: &[&str] = &["AUTO", "HTTP1", "HTTP2", "HTTP3"];
    pub const FORWARD_CERTIFICATE: &[&str] =
        &["SANITIZE", "FORWARD_ONLY", "APPEND_FORWARD", "SANITIZE_SET", "ALWAYS_FORWARD_ONLY"];
    pub const ESCAPED_SLASHES: &[&str] = &[
        "IMPLEMENTATION_SPECIFIC_DEFAULT",
        "KEEP_UNCHANGED",
        "REJECT_REQUEST",
        "UNESCAPE_AND_REDIRECT",
        "UNESCAPE_AND_FORWARD",
    ];
    pub const UNDERSCORES: &[&str] = &["ALLOW", "REJECT_REQUEST", "DROP_HEADER"];
    pub const TRUST_CHAIN: &[&str] = &["VERIFY_TRUST_CHAIN", "ACCEPT_UNTRUSTED"];
    pub const TLS_VERSIONS: &[&str] = &["TLS_AUTO", "TLSv1_0", "TLSv1_1", "TLSv1_2", "TLSv1_3"];
    pub const REQUIRE_TLS: &[&str] = &["NONE", "EXTERNAL_ONLY", "ALL"];
    pub const NOT_FOUND: &[&str] = &["SERVICE_UNAVAILABLE", "NOT_FOUND", "INTERNAL_SERVER_ERROR"];
    pub const DENOMINATORS: &[&str] = &["HUNDRED", "TEN_THOUSAND", "MILLION"];
    pub const REDIRECTS: &[&str] =
        &["MOVED_PERMANENTLY", "FOUND", "SEE_OTHER", "TEMPORARY_REDIRECT", "PERMANENT_REDIRECT"];
    pub const APPEND_ACTIONS: &[&str] =
        &["APPEND_IF_EXISTS_OR_ADD", "ADD_IF_ABSENT", "OVERWRITE_IF_EXISTS_OR_ADD", "OVERWRITE_IF_EXISTS"];
    pub const POLICIES: &[&str] = &[
        "ROUND_ROBIN",
        "LEAST_REQUEST",
        "RING_HASH",
        "RANDOM",
        "",
        "MAGLEV",
        "CLUSTER_PROVIDED",
        "LOAD_BALANCING_POLICY_CONFIG",
    ];
    pub const METHODS: &[&str] =
        &["METHOD_UNSPECIFIED", "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
    pub const PRIORITIES: &[&str] = &["DEFAULT", "HIGH"];
    pub const DISCOVERY_TYPES: &[&str] = &["STATIC", "STRICT_DNS", "LOGICAL_DNS", "EDS", "ORIGINAL_DST"];
    pub const HEALTH: &[&str] = &["UNKNOWN", "HEALTHY", "UNHEALTHY", "DRAINING", "TIMEOUT", "DEGRADED"];
}

messages! {
    EMPTY {}
    WRAPPED {
        kept: 1 value Number;
    }
    DURATION {
        kept: 1 seconds Number, 2 nanos Number;
    }
    LISTENER {
        kept: 1 name Text, 2 address Of(&ADDRESS), 3 filter_chains Of(&FILTER_CHAIN),
            9 listener_filters Of(&LISTENER_FILTER), 25 default_filter_chain Of(&FILTER_CHAIN),
            26 bind_to_port Of(&WRAPPED), 33 additional_addresses Of(&ADDITIONAL_ADDRESS);
        ignored: 5 per_connection_buffer_limit_bytes, 6 metadata, 8 drain_type, 12 tcp_fast_open_queue_length,
            15 listener_filters_timeout, 16 traffic_direction, 17 continue_on_listener_filters_timeout,
            20 connection_balance_config, 21 reuse_port, 22 access_log, 24 tcp_backlog_size, 28 stat_prefix,
            29 enable_reuse_port, 30 enable_mptcp, 31 ignore_global_conn_limit,
            34 max_connections_to_accept_per_socket_event, 35 bypass_overload_manager, 37 tcp_keepalive,
            38 per_connection_buffer_high_watermark_timeout, 39 stats_matcher;
        minor: 11 freebind, 13 socket_options;
        refused: 4 use_original_dst, 7 deprecated_v1, 10 transparent, 18 udp_listener_config, 19 api_listener,
            27 internal_listener, 32 filter_chain_matcher, 36 fcds_config;
    }
    FILTER_CHAIN {
        kept: 1 filter_chain_match Of(&FILTER_CHAIN_MATCH), 3 filters Of(&FILTER),
            6 transport_socket Of(&TRANSPORT_SOCKET), 7 name Text;
        ignored: 5 metadata, 9 transport_socket_connect_timeout;
        refused: 4 use_proxy_proto;
    }
    FILTER_CHAIN_MATCH {
        kept: 9 transport_protocol Text, 10 application_protocols Text, 11 server_names Text;
        refused: 3 prefix_ranges, 4 address_suffix, 5 suffix_len, 6 source_prefix_ranges, 7 source_ports,
            8 destination_port, 12 source_type, 13 direct_source_prefix_ranges;
    }
    FILTER {
        kept: 1 name Text, 4 typed_config Any;
        refused: 5 config_discovery;
    }
    LISTENER_FILTER {
        kept: 1 name Text, 3 typed_config Any;
        refused: 4 filter_disabled, 5 config_discovery;
    }
    MANAGER {
        kept: 1 codec_type Word(words::CODECS), 3 rds Of(&RDS), 4 route_config Of(&ROUTE_CONFIGURATION),
            5 http_filters Of(&HTTP_FILTER), 9 http2_protocol_options Of(&HTTP2_OPTIONS),
            16 forward_client_cert_details Word(words::FORWARD_CERTIFICATE), 19 xff_num_trusted_hops Number,
            23 upgrade_configs Of(&UPGRADE_CONFIG), 24 stream_idle_timeout Of(&DURATION),
            29 max_request_headers_kb Of(&WRAPPED), 30 normalize_path Of(&WRAPPED), 33 merge_slashes Number,
            35 common_http_protocol_options Of(&HTTP_OPTIONS), 41 request_headers_timeout Of(&DURATION),
            45 path_with_escaped_slashes_action Word(words::ESCAPED_SLASHES);
        ignored: 2 stat_prefix, 12 drain_timeout, 13 access_log, 14 use_remote_address, 15 generate_request_id,
            26 delayed_close_timeout, 40 stream_error_on_invalid_http_message, 44 http3_protocol_options,
            54 access_log_flush_interval, 55 flush_access_log_on_new_request, 56 access_log_options,
            57 append_local_overload, 59 stream_flush_timeout, 62 drain_timeout_jitter,
            63 record_route_resolution_stats;
        minor: 6 add_user_agent, 7 tracing, 8 http_protocol_options, 10 server_name,
            17 set_current_client_cert_details, 18 proxy_100_continue,
            20 represent_ipv4_remote_address_as_ipv4_mapped_ipv6, 25 internal_address_config,
            32 preserve_external_request_id, 34 server_header_transformation, 36 request_id_extension,
            37 always_set_request_id_in_response, 39 strip_matching_host_port, 42 strip_any_host_port,
            47 strip_trailing_host_dot, 48 scheme_header_transformation, 49 proxy_status_config,
            51 append_x_forwarded_port, 58 http1_safe_max_connection_duration;
        noted: 28 request_timeout, 43 path_normalization_options;
        refused: 21 skip_xff_append, 22 via, 31 scoped_routes, 38 local_reply_config,
            46 original_ip_detection_extensions, 50 typed_header_validation_config,
            52 early_header_mutation_extensions, 53 add_proxy_protocol_connection_state,
            60 forward_client_cert_matcher, 61 forward_proto_config;
    }
    RDS {
        kept: 1 config_source Of(&CONFIG_SOURCE), 2 route_config_name Text;
    }
    CONFIG_SOURCE {
        kept: 3 ads Of(&EMPTY), 5 self Of(&EMPTY);
        ignored: 4 initial_fetch_timeout, 6 resource_api_version;
        refused: 1 path, 2 api_config_source, 7 authorities, 8 path_config_source;
    }
    HTTP_FILTER {
        kept: 1 name Text, 4 typed_config Any, 6 is_optional Number, 7 disabled Number;
        refused: 5 config_discovery;
    }
    UPGRADE_CONFIG {
        kept: 1 upgrade_type Text, 2 filters Of(&HTTP_FILTER), 3 enabled Of(&WRAPPED);
    }
    HTTP_OPTIONS {
        kept: 1 idle_timeout Of(&DURATION), 2 max_headers_count Of(&WRAPPED),
            5 headers_with_underscores_action Word(words::UNDERSCORES);
        ignored: 8 max_connection_duration_jitter;
        minor: 6 max_requests_per_connection, 7 max_response_headers_kb;
        refused: 3 max_connection_duration, 4 max_stream_duration;
    }
    HTTP2_OPTIONS {
        kept: 2 max_concurrent_streams Of(&WRAPPED);
        ignored: 1 hpack_table_size, 3 initial_stream_window_size, 4 initial_connection_window_size, 6 allow_metadata,
            7 max_outbound_frames, 8 max_outbound_control_frames, 9 max_consecutive_inbound_frames_with_empty_payload,
            10 max_inbound_priority_frames_per_stream, 11 max_inbound_window_update_frames_per_data_frame_sent,
            12 stream_error_on_invalid_http_messaging, 13 custom_settings_parameters,
            14 override_stream_error_on_invalid_http_message, 16 use_oghttp2_codec, 17 max_metadata_size,
            18 enable_huffman_encoding, 19 max_header_field_size_kb, 20 disallow_obs_text, 21 stream_reset_burst,
            22 stream_reset_rate;
        minor: 15 connection_keepalive;
        refused: 5 allow_connect;
    }
    TCP_PROXY {
        kept: 2 cluster Text, 8 idle_timeout Of(&DURATION), 10 weighted_clusters Of(&TCP_CLUSTERS);
        ignored: 1 stat_prefix, 5 access_log, 15 access_log_flush_interval, 16 flush_access_log_on_connected,
            17 access_log_options, 24 check_drain_close;
        minor: 7 max_connect_attempts, 18 backoff_options;
        noted: 3 downstream_idle_timeout, 4 upstream_idle_timeout;
        refused: 9 metadata_match, 11 hash_policy, 12 tunneling_config, 13 max_downstream_connection_duration,
            14 on_demand, 19 proxy_protocol_tlvs, 20 max_downstream_connection_duration_jitter_percentage,
            21 upstream_connect_mode, 22 max_early_data_bytes, 23 proxy_protocol_tlv_merge_policy;
    }
    TCP_CLUSTERS {
        kept: 1 clusters Of(&TCP_CLUSTER);
    }
    TCP_CLUSTER {
        kept: 1 name Text, 2 weight Number;
        refused: 3 metadata_match;
    }
    TRANSPORT_SOCKET {
        kept: 1 name Text, 3 typed_config Any;
    }
    DOWNSTREAM_TLS {
        kept: 1 common_tls_context Of(&COMMON_TLS), 2 require_client_certificate Of(&WRAPPED),
            3 require_sni Of(&WRAPPED);
        ignored: 9 full_scan_certs_on_sni_mismatch, 11 prefer_client_ciphers;
        noted: 6 session_timeout, 7 disable_stateless_session_resumption, 8 ocsp_staple_policy,
            10 disable_stateful_session_resumption;
        refused: 4 session_ticket_keys, 5 session_ticket_keys_sds_secret_config;
    }
    UPSTREAM_TLS {
        kept: 1 common_tls_context Of(&COMMON_TLS), 2 sni Text, 6 auto_host_sni Number;
        ignored: 3 allow_renegotiation, 4 max_session_keys;
        noted: 5 enforce_rsa_key_usage;
        refused: 7 auto_sni_san_validation;
    }
    COMMON_TLS {
        kept: 1 tls_params Of(&TLS_PARAMETERS), 2 tls_certificates Of(&TLS_CERTIFICATE),
            3 validation_context Of(&VALIDATION);
        ignored: 4 alpn_protocols, 15 key_log;
        refused: 6 tls_certificate_sds_secret_configs, 7 validation_context_sds_secret_config,
            8 combined_validation_context, 9 tls_certificate_certificate_provider,
            10 validation_context_certificate_provider, 11 tls_certificate_certificate_provider_instance,
            12 validation_context_certificate_provider_instance, 13 custom_handshaker,
            14 tls_certificate_provider_instance, 16 custom_tls_certificate_selector;
    }
    TLS_CERTIFICATE {
        kept: 1 certificate_chain Of(&DATA_SOURCE), 2 private_key Of(&DATA_SOURCE),
            4 ocsp_staple Of(&DATA_SOURCE);
        ignored: 7 watched_directory;
        refused: 3 password, 5 signed_certificate_timestamp, 6 private_key_provider, 8 pkcs12, 9 tls_params;
    }
    VALIDATION {
        kept: 1 trusted_ca Of(&DATA_SOURCE), 7 crl Of(&DATA_SOURCE), 10 trust_chain_verification Word(words::TRUST_CHAIN),
            17 system_root_certs Of(&EMPTY);
        ignored: 11 watched_directory, 18 suppress_client_ca_list;
        noted: 16 max_verify_depth;
        refused: 2 verify_certificate_hash, 3 verify_certificate_spki, 6 require_signed_certificate_timestamp,
            8 allow_expired_certificate, 9 match_subject_alt_names, 12 custom_validator_config,
            13 ca_certificate_provider_instance, 14 only_verify_leaf_cert_crl, 15 match_typed_subject_alt_names;
    }
    TLS_PARAMETERS {
        kept: 1 tls_minimum_protocol_version Word(words::TLS_VERSIONS);
        noted: 3 cipher_suites, 4 ecdh_curves, 5 signature_algorithms;
        refused: 2 tls_maximum_protocol_version, 6 compliance_policies;
    }
    DATA_SOURCE {
        kept: 1 filename Text, 2 inline_bytes Encoded, 3 inline_string Text, 4 environment_variable Text;
        ignored: 5 watched_directory;
    }
    ADDRESS {
        kept: 1 socket_address Of(&SOCKET_ADDRESS), 2 pipe Of(&PIPE), 3 envoy_internal_address Raw;
    }
    ADDITIONAL_ADDRESS {
        kept: 1 address Of(&ADDRESS);
        ignored: 2 socket_options, 3 tcp_keepalive;
    }
    SOCKET_ADDRESS {
        kept: 2 address Text, 3 port_value Number, 4 named_port Text;
        ignored: 1 protocol, 6 ipv4_compat;
        refused: 5 resolver_name, 7 network_namespace_filepath;
    }
    PIPE {
        kept: 1 path Text;
        ignored: 2 mode;
    }
    ROUTE_CONFIGURATION {
        kept: 1 name Text, 2 virtual_hosts Of(&VIRTUAL_HOST), 3 internal_only_headers Text, 4 response_headers_to_add Of(&HEADER_OPTION),
            5 response_headers_to_remove Text, 6 request_headers_to_add Of(&HEADER_OPTION),
            8 request_headers_to_remove Text, 13 request_mirror_policies Of(&MIRROR_POLICY),
            10 most_specific_header_mutations_wins Number;
        ignored: 7 validate_clusters,
            11 max_direct_response_body_size_bytes, 14 ignore_port_in_host_matching, 17 metadata;
        refused: 9 vhds, 12 cluster_specifier_plugins, 15 ignore_path_parameters_in_path_matching,
            16 typed_per_filter_config, 18 vhost_header, 19 route_specifiers;
    }
    VIRTUAL_HOST {
        kept: 1 name Text, 2 domains Text, 3 routes Of(&ROUTE), 4 require_tls Word(words::REQUIRE_TLS),
            7 request_headers_to_add Of(&HEADER_OPTION), 10 response_headers_to_add Of(&HEADER_OPTION),
            11 response_headers_to_remove Text, 13 request_headers_to_remove Text,
            16 retry_policy Of(&RETRY_POLICY), 22 request_mirror_policies Of(&MIRROR_POLICY);
        ignored: 5 virtual_clusters, 18 per_request_buffer_limit_bytes, 24 metadata, 25 request_body_buffer_limit;
        minor: 14 include_request_attempt_count, 19 include_attempt_count_in_response,
            23 include_is_timeout_retry_header;
        refused: 6 rate_limits, 8 cors, 15 typed_per_filter_config, 17 hedge_policy,
            20 retry_policy_typed_config, 21 matcher, 26 route_specifiers;
    }
    ROUTE {
        kept: 1 match Of(&ROUTE_MATCH), 2 route Of(&ROUTE_ACTION), 3 redirect Of(&REDIRECT),
            7 direct_response Of(&DIRECT_RESPONSE), 9 request_headers_to_add Of(&HEADER_OPTION),
            10 response_headers_to_add Of(&HEADER_OPTION), 11 response_headers_to_remove Text,
            12 request_headers_to_remove Text, 14 name Text;
        ignored: 4 metadata, 5 decorator, 16 per_request_buffer_limit_bytes, 19 stat_prefix,
            20 request_body_buffer_limit;
        minor: 15 tracing;
        refused: 13 typed_per_filter_config, 17 filter_action, 18 non_forwarding_action, 21 route_specifiers;
    }
    ROUTE_MATCH {
        kept: 1 prefix Text, 2 path Text, 4 case_sensitive Of(&WRAPPED), 6 headers Of(&HEADER_MATCHER),
            7 query_parameters Of(&QUERY_MATCHER), 8 grpc Of(&EMPTY), 9 runtime_fraction Of(&RUNTIME_FRACTION),
            10 safe_regex Of(&REGEX_MATCHER), 14 path_separated_prefix Text, 17 cookies Of(&COOKIE_MATCHER);
        refused: 11 tls_context, 12 connect_matcher, 13 dynamic_metadata, 15 path_match_policy, 16 filter_state;
    }
    HEADER_MATCHER {
        kept: 1 name Text, 4 exact_match Text, 6 range_match Of(&INT64_RANGE), 7 present_match Number, 8 invert_match Number,
            9 prefix_match Text, 10 suffix_match Text, 11 safe_regex_match Of(&REGEX_MATCHER),
            12 contains_match Text, 13 string_match Of(&STRING_MATCHER),
            14 treat_missing_header_as_empty Number;
    }
    INT64_RANGE {
        kept: 1 start Number, 2 end Number;
    }
    QUERY_MATCHER {
        kept: 1 name Text, 5 string_match Of(&STRING_MATCHER), 6 present_match Number;
    }
    COOKIE_MATCHER {
        kept: 1 name Text, 2 string_match Of(&STRING_MATCHER), 3 invert_match Number;
    }
    STRING_MATCHER {
        kept: 1 exact Text, 2 prefix Text, 3 suffix Text, 5 safe_regex Of(&REGEX_MATCHER), 6 ignore_case Number,
            7 contains Text;
        refused: 8 custom;
    }
    REGEX_MATCHER {
        kept: 2 regex Text;
        ignored: 1 google_re2;
    }
    REGEX_SUBSTITUTE { kept: 1 pattern Of(&REGEX_MATCHER), 2 substitution Text; }
    ROUTE_ACTION {
        kept: 1 cluster Text, 3 weighted_clusters Of(&WEIGHTED_CLUSTERS), 5 prefix_rewrite Text,
            6 host_rewrite_literal Text, 7 auto_host_rewrite Of(&WRAPPED), 8 timeout Of(&DURATION),
            9 retry_policy Of(&RETRY_POLICY), 15 hash_policy Of(&HASH_POLICY),
            20 cluster_not_found_response_code Word(words::NOT_FOUND), 24 idle_timeout Of(&DURATION),
            25 upgrade_configs Of(&ROUTE_UPGRADE), 30 request_mirror_policies Of(&MIRROR_POLICY),
            32 regex_rewrite Of(&REGEX_SUBSTITUTE), 36 max_stream_duration Of(&STREAM_DURATION);
        ignored: 38 append_x_forwarded_host, 40 early_data_policy;
        minor: 23 max_grpc_timeout, 28 grpc_timeout_offset, 42 flush_timeout;
        refused: 2 cluster_header, 4 metadata_match, 11 priority, 13 rate_limits, 14 include_vh_rate_limits,
            17 cors, 26 internal_redirect_action, 27 hedge_policy, 29 host_rewrite_header,
            31 max_internal_redirects, 33 retry_policy_typed_config,
            34 internal_redirect_policy, 35 host_rewrite_path_regex, 37 cluster_specifier_plugin,
            39 inline_cluster_specifier_plugin, 41 path_rewrite_policy, 44 host_rewrite, 45 path_rewrite;
    }
    WEIGHTED_CLUSTERS {
        kept: 1 clusters Of(&CLUSTER_WEIGHT), 5 use_hash_policy Of(&WRAPPED);
        ignored: 2 runtime_key_prefix, 3 total_weight;
        refused: 4 header_name;
    }
    CLUSTER_WEIGHT {
        kept: 1 name Text, 2 weight Of(&WRAPPED);
        refused: 3 metadata_match, 4 request_headers_to_add, 5 response_headers_to_add,
            6 response_headers_to_remove, 9 request_headers_to_remove, 10 typed_per_filter_config,
            11 host_rewrite_literal, 12 cluster_header;
    }
    RETRY_POLICY {
        kept: 1 retry_on Text, 2 num_retries Of(&WRAPPED), 3 per_try_timeout Of(&DURATION),
            7 retriable_status_codes Number, 8 retry_back_off Of(&RETRY_BACK_OFF);
        ignored: 5 retry_host_predicate, 6 host_selection_retry_max_attempts, 14 refresh_cluster_on_retry;
        minor: 4 retry_priority, 11 rate_limited_retry_back_off, 13 per_try_idle_timeout;
        refused: 9 retriable_headers, 10 retriable_request_headers, 12 retry_options_predicates;
    }
    RETRY_BACK_OFF {
        kept: 1 base_interval Of(&DURATION), 2 max_interval Of(&DURATION);
    }
    MIRROR_POLICY {
        kept: 1 cluster Text, 3 runtime_fraction Of(&RUNTIME_FRACTION);
        ignored: 4 trace_sampled, 6 disable_shadow_host_suffix_append;
        refused: 5 cluster_header, 7 request_headers_mutations, 8 host_rewrite_literal;
    }
    RUNTIME_FRACTION {
        kept: 1 default_value Of(&FRACTION);
        ignored: 2 runtime_key;
    }
    FRACTION {
        kept: 1 numerator Number, 2 denominator Word(words::DENOMINATORS);
    }
    HASH_POLICY {
        kept: 1 header Of(&HASH_HEADER), 2 cookie Of(&HASH_COOKIE),
            3 connection_properties Of(&HASH_CONNECTION), 5 query_parameter Of(&HASH_QUERY);
        ignored: 4 terminal;
        refused: 6 filter_state;
    }
    HASH_HEADER {
        kept: 1 header_name Text;
        refused: 2 regex_rewrite;
    }
    HASH_COOKIE {
        kept: 1 name Text;
        refused: 2 ttl, 3 path, 4 attributes;
    }
    HASH_CONNECTION {
        kept: 1 source_ip Number;
    }
    HASH_QUERY {
        kept: 1 name Text;
    }
    ROUTE_UPGRADE {
        kept: 1 upgrade_type Text, 2 enabled Of(&WRAPPED);
        refused: 3 connect_config;
    }
    STREAM_DURATION {
        kept: 1 max_stream_duration Of(&DURATION);
        minor: 2 grpc_timeout_header_max, 3 grpc_timeout_header_offset;
    }
    REDIRECT {
        kept: 1 host_redirect Text, 2 path_redirect Text, 3 response_code Word(words::REDIRECTS), 4 https_redirect Number,
            5 prefix_rewrite Text, 6 strip_query Number, 7 scheme_redirect Text, 8 port_redirect Number;
        refused: 9 regex_rewrite, 10 path_rewrite;
    }
    DIRECT_RESPONSE {
        kept: 1 status Number, 2 body Of(&DATA_SOURCE);
        refused: 3 body_format;
    }
    HEADER_OPTION {
        kept: 1 header Of(&HEADER_VALUE), 2 append Of(&WRAPPED), 3 append_action Word(words::APPEND_ACTIONS),
            4 keep_empty_value Number;
    }
    HEADER_VALUE {
        kept: 1 key Text, 2 value Text;
        refused: 3 raw_value;
    }
    CLUSTER {
        kept: 1 name Text, 2 type Word(words::DISCOVERY_TYPES), 3 eds_cluster_config Of(&EDS_CONFIG), 4 connect_timeout Of(&DURATION),
            6 lb_policy Word(words::POLICIES), 8 health_checks Of(&HEALTH_CHECK), 10 circuit_breakers Of(&CIRCUIT_BREAKERS),
            14 http2_protocol_options Of(&HTTP2_OPTIONS), 19 outlier_detection Of(&OUTLIER_DETECTION),
            23 ring_hash_lb_config Of(&RING_HASH), 24 transport_socket Of(&TRANSPORT_SOCKET),
            27 common_lb_config Of(&COMMON_LB), 29 common_http_protocol_options Of(&HTTP_OPTIONS),
            33 load_assignment Of(&ASSIGNMENT), 36 typed_extension_protocol_options Of(&ANY_ENTRY),
            37 least_request_lb_config Of(&LEAST_REQUEST), 52 maglev_lb_config Of(&MAGLEV),
            56 round_robin_lb_config Of(&ROUND_ROBIN);
        ignored: 5 per_connection_buffer_limit_bytes, 16 dns_refresh_rate, 17 dns_lookup_family, 20 cleanup_interval,
            25 metadata, 28 alt_stat_name, 30 upstream_connection_options, 32 ignore_health_on_host_removal,
            39 respect_dns_ttl, 42 lrs_server, 44 dns_failure_refresh_rate, 45 use_tcp_for_dns_lookups,
            47 track_timeout_budgets, 49 track_cluster_stats, 50 preconnect_policy, 54 wait_for_warm_on_init,
            57 lrs_report_endpoint_metrics, 58 dns_jitter, 60 per_connection_buffer_high_watermark_timeout,
            61 stats_matcher, 62 queuing_policies;
        minor: 9 max_requests_per_connection, 13 http_protocol_options, 18 dns_resolvers, 26 protocol_selection,
            31 close_connections_on_host_health_failure, 46 upstream_http_protocol_options, 53 dns_resolution_config,
            55 typed_dns_resolver_config;
        refused: 21 upstream_bind_config, 22 lb_subset_config, 34 original_dst_lb_config, 38 cluster_type,
            40 filters, 41 load_balancing_policy, 43 transport_socket_matches, 48 upstream_config,
            51 connection_pool_per_downstream_connection, 59 transport_socket_matcher;
    }
    ASSIGNMENT {
        kept: 1 cluster_name Text, 2 endpoints Of(&LOCALITY_ENDPOINTS), 4 policy Of(&ASSIGNMENT_POLICY);
        ignored: 5 named_endpoints;
    }
    ASSIGNMENT_POLICY {
        kept: 2 drop_overloads Raw, 4 endpoint_stale_after Of(&DURATION);
        minor: 3 overprovisioning_factor, 5 disable_overprovisioning, 6 weighted_priority_health;
    }
    LOCALITY_ENDPOINTS {
        kept: 1 locality Of(&LOCALITY), 2 lb_endpoints Of(&LB_ENDPOINT), 5 priority Number,
            8 leds_cluster_locality_config Raw;
        ignored: 3 load_balancing_weight, 6 proximity, 7 load_balancer_endpoints, 9 metadata;
    }
    LOCALITY {
        kept: 1 region Text, 2 zone Text;
        ignored: 3 sub_zone;
    }
    LB_ENDPOINT {
        kept: 1 endpoint Of(&ENDPOINT), 2 health_status Word(words::HEALTH), 4 load_balancing_weight Of(&WRAPPED);
        ignored: 3 metadata, 5 endpoint_name;
    }
    ENDPOINT {
        kept: 1 address Of(&ADDRESS), 3 hostname Text;
        minor: 2 health_check_config, 4 additional_addresses;
    }
    EDS_CONFIG {
        kept: 1 eds_config Of(&CONFIG_SOURCE), 2 service_name Text;
    }
    ROUND_ROBIN {
        kept: 1 slow_start_config Of(&SLOW_START);
    }
    LEAST_REQUEST {
        kept: 3 slow_start_config Of(&SLOW_START);
        ignored: 1 choice_count, 2 active_request_bias;
    }
    SLOW_START {
        kept: 1 slow_start_window Of(&DURATION), 3 min_weight_percent Of(&PERCENT);
        refused: 2 aggression;
    }
    RING_HASH {
        ignored: 1 minimum_ring_size, 3 hash_function, 4 maximum_ring_size;
    }
    MAGLEV {
        ignored: 1 table_size;
    }
    COMMON_LB {
        kept: 1 healthy_panic_threshold Of(&PERCENT);
        ignored: 2 zone_aware_lb_config, 4 update_merge_window, 6 close_connections_on_host_set_change;
        minor: 5 ignore_new_hosts_until_first_hc, 7 consistent_hashing_lb_config, 8 override_host_status;
        refused: 3 locality_weighted_lb_config;
    }
    PERCENT {
        kept: 1 value Float;
    }
    HEALTH_CHECK {
        kept: 1 timeout Of(&DURATION), 2 interval Of(&DURATION), 4 unhealthy_threshold Of(&WRAPPED),
            5 healthy_threshold Of(&WRAPPED), 6 alt_port Of(&WRAPPED), 8 http_health_check Of(&HTTP_CHECK),
            9 tcp_health_check Of(&TCP_CHECK), 11 grpc_health_check Of(&GRPC_CHECK), 27 name Text;
        ignored: 3 interval_jitter, 7 reuse_connection, 17 event_log_path, 18 interval_jitter_percent,
            19 always_log_health_check_failures, 20 initial_jitter, 22 event_service, 25 event_logger,
            26 always_log_health_check_success;
        minor: 12 no_traffic_interval, 14 unhealthy_interval, 15 unhealthy_edge_interval, 16 healthy_edge_interval,
            24 no_traffic_healthy_interval;
        refused: 13 custom_health_check, 21 tls_options, 23 transport_socket_match_criteria;
    }
    HTTP_CHECK {
        kept: 1 host Text, 2 path Text, 9 expected_statuses Of(&RANGE), 13 method Word(words::METHODS);
        ignored: 14 response_buffer_size;
        minor: 10 codec_client_type, 12 retriable_statuses;
        refused: 3 send, 4 receive, 6 request_headers_to_add, 8 request_headers_to_remove,
            11 service_name_matcher, 15 use_alpn_protocol;
    }
    TCP_CHECK {
        kept: 1 send Of(&PAYLOAD), 2 receive Of(&PAYLOAD);
        refused: 3 proxy_protocol_config;
    }
    GRPC_CHECK {
        kept: 1 service_name Text, 2 authority Text;
        refused: 3 initial_metadata;
    }
    PAYLOAD {
        kept: 1 text Text, 2 binary Raw;
    }
    RANGE {
        kept: 1 start Number, 2 end Number;
    }
    OUTLIER_DETECTION {
        kept: 1 consecutive_5xx Of(&WRAPPED), 2 interval Of(&DURATION), 3 base_ejection_time Of(&DURATION),
            4 max_ejection_percent Of(&WRAPPED), 5 enforcing_consecutive_5xx Of(&WRAPPED),
            6 enforcing_success_rate Of(&WRAPPED), 7 success_rate_minimum_hosts Of(&WRAPPED),
            8 success_rate_request_volume Of(&WRAPPED), 9 success_rate_stdev_factor Of(&WRAPPED),
            10 consecutive_gateway_failure Of(&WRAPPED), 11 enforcing_consecutive_gateway_failure Of(&WRAPPED),
            13 consecutive_local_origin_failure Of(&WRAPPED),
            14 enforcing_consecutive_local_origin_failure Of(&WRAPPED), 21 max_ejection_time Of(&DURATION);
        ignored: 22 max_ejection_time_jitter;
        minor: 12 split_external_local_origin_errors, 15 enforcing_local_origin_success_rate,
            16 failure_percentage_threshold, 17 enforcing_failure_percentage,
            18 enforcing_failure_percentage_local_origin, 19 failure_percentage_minimum_hosts,
            20 failure_percentage_request_volume, 23 successful_active_health_check_uneject_host, 24 monitors,
            25 always_eject_one_host, 26 detect_degraded_hosts;
    }
    CIRCUIT_BREAKERS {
        kept: 1 thresholds Of(&THRESHOLDS), 2 per_host_thresholds Of(&THRESHOLDS);
    }
    THRESHOLDS {
        kept: 1 priority Word(words::PRIORITIES), 3 max_pending_requests Of(&WRAPPED), 4 max_requests Of(&WRAPPED);
        ignored: 6 track_remaining, 7 max_connection_pools;
        noted: 2 max_connections, 5 max_retries, 8 retry_budget;
    }
    ANY_ENTRY {
        kept: 1 key Text, 2 value Any;
    }
    UPSTREAM_HTTP {
        kept: 1 common_http_protocol_options Of(&HTTP_OPTIONS), 3 explicit_http_config Of(&EXPLICIT_HTTP),
            5 auto_config Of(&EMPTY);
        minor: 2 upstream_http_protocol_options;
        noted: 7 header_validation_config;
        refused: 4 use_downstream_protocol_config, 6 http_filters, 8 outlier_detection,
            9 request_mirror_policies, 10 hash_policy, 11 retry_policy;
    }
    EXPLICIT_HTTP {
        kept: 2 http2_protocol_options Of(&HTTP2_OPTIONS);
        minor: 1 http_protocol_options;
        refused: 3 http3_protocol_options;
    }
}
