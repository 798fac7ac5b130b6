//! HTTP/1 requests and responses, whatever either side does.

mod answers;
mod attackers;
mod cuts;
mod error_pages;
mod faults;
mod half_open;
mod interim;
mod internal;
mod large_heads;
mod lingering;
mod log;
mod loops;
mod messages;
mod pressure;
mod real_clients;
mod reuse;
mod stray;
mod tolerate;
mod upgrades;
