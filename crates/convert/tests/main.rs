//! Tests of conversions: fixtures with their committed output, the traps that change behaviour silently, any text.

#[path = "../../config/tests/support/committed.rs"]
mod committed;
mod fixtures;
mod large;
mod listeners;
mod never_panics;
mod protective;
mod protective_caddy;
mod protective_envoy;
mod protective_haproxy;
mod protective_nginx;
mod protective_traefik;
mod traps;
mod traps_of_envoy;
mod traps_of_haproxy;
mod traps_of_nginx;
