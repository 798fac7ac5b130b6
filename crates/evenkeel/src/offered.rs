//! Where is the dashboard of a process that no file configures? At the usual port of this machine if that is free; the user that
//! started the process is told a password to change things with.

use evenkeel_admin::api::access::Token;
use evenkeel_config::Plan;
use evenkeel_config::plan::{Admin, AdminHttp};
use evenkeel_net::inherit::Inherited;
use rustix::rand::{GetRandomFlags, getrandom};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// The usual port.
const PORT: u16 = 9900;

/// What a process offers unasked.
pub struct Offered {
    /// Listens, if the plan named no address.
    pub listener: Option<TcpListener>,
    /// Lets people change things; it ends with the process.
    pub token: Token,
    /// The same, to be shown.
    pub password: String,
}

impl Offered {
    /// For a plan, which has the address then. `None` if there is none that is free, or no token can be made.
    pub fn new(plan: &mut Plan, inherited: &mut Inherited) -> Option<Offered> {
        let password = password()?;
        let token = Token::new(password.as_bytes())?;
        if plan.admin.is_some() {
            return Some(Offered { listener: None, token, password });
        }
        let bind = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
        let listener = match inherited.tcp(bind).pop() {
            Some(socket) => TcpListener::from(socket),
            // Another process has it: this one does without.
            None => TcpListener::bind(bind).ok()?,
        };
        let http = AdminHttp::at(bind);
        plan.admin = Some(Admin { http: Some(http), socket: None });
        Some(Offered { listener: Some(listener), token, password })
    }
}

/// Sixteen random bytes.
fn password() -> Option<String> {
    let mut bytes = [0; 16];
    let got = getrandom(&mut bytes, GetRandomFlags::empty()).ok()?;
    (got == bytes.len()).then(|| bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
