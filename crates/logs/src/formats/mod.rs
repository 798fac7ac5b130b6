//! Formats of access logs: a row for each, found by name or by the lines of a log.

// Order: format, combined, nginx, evenkeel, haproxy, envoy, traefik, caddy, alb, row
mod alb;
mod caddy;
mod combined;
mod envoy;
mod evenkeel;
mod format;
mod haproxy;
mod nginx;
mod row;
mod traefik;

pub use format::{Format, ROWS, Unreadable};
pub use row::{Program, Row};
