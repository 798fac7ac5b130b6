//! Users with passwords, and services that decide about requests.

mod basic_auth;
mod forward_auth;
mod forward_auth_client;
