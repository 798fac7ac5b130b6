//! The dashboard of a process that no file configures: at the usual port of this machine if that is free, with a password for
//! changes that is printed to the user who started the process.

use evenkeel_admin::api::access::Token;
use evenkeel_config::Plan;
use evenkeel_config::plan::AdminHttp;
use evenkeel_net::inherit::Inherited;
use rustix::rand::{GetRandomFlags, getrandom};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// Port of the dashboard: 9900.
const PORT: u16 = 9900;

/// Dashboard that a process offers unasked.
pub struct Offered {
    /// The listener, if the plan named no address.
    pub listener: Option<TcpListener>,
    /// Token for changes; it ends with the process.
    pub token: Token,
    /// The token as text, to be printed.
    pub password: String,
}

impl Offered {
    /// Offers it to a plan, which has the address then. `None` if no address is free, or no token can be made.
    pub fn new(plan: &mut Plan, inherited: &mut Inherited) -> Option<Offered> {
        let password = password()?;
        let token = Token::new(password.as_bytes())?;
        let listener = match has_http(plan) {
            true => None,
            false => Some(offer(plan, inherited)?),
        };
        Some(Offered { listener, token, password })
    }
}

/// Adds the address that a process with this plan would offer now, if there is such an address.
pub fn preview(plan: &mut Plan) {
    if !has_http(plan) {
        // If another process holds the address, the plan stays as it is.
        let _ = offer(plan, &mut Inherited::default());
    }
}

fn has_http(plan: &Plan) -> bool {
    plan.admin.as_ref().is_some_and(|admin| admin.http.is_some())
}

fn offer(plan: &mut Plan, inherited: &mut Inherited) -> Option<TcpListener> {
    let bind = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    let listener = match inherited.tcp(bind).pop() {
        Some(socket) => TcpListener::from(socket),
        // Another process holds the address: this process offers none.
        None => TcpListener::bind(bind).ok()?,
    };
    plan.admin.get_or_insert_default().http = Some(AdminHttp::at(bind));
    Some(listener)
}

/// Sixteen random bytes.
fn password() -> Option<String> {
    let mut bytes = [0; 16];
    let got = getrandom(&mut bytes, GetRandomFlags::empty()).ok()?;
    (got == bytes.len()).then(|| bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
