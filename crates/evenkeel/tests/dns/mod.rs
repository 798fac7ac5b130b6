//! Zones of a whole evenkeel, asked by the tools and the resolver that are in use everywhere, and by clients that send what they
//! should not.


#[rustfmt::skip] // rows
mod cases;
mod counted;
mod found;
mod load;
mod resolver;
mod strangers;
mod upgrade;
mod wellness;

use crate::support::{Folder, Running, address};

/// An evenkeel that answers for a zone with all that a zone can have.
struct DnsSetup {
    listen: String,
    admin: String,
    // Ends before its folder goes.
    running: Running,
    _folder: Folder,
}

impl DnsSetup {
    fn start(name: &str) -> DnsSetup {
        let many: Vec<String> = (1..=60).map(|i| format!("10.9.3.{i}:80")).collect();
        let (folder, listen, admin) = (Folder::new(&format!("dns-{name}")), address(), address());
        let file = folder.file(
            "evenkeel.toml",
            &format!(
                r#"
[runtime]
workers = 2
[admin]
http = {{ bind = "{admin}" }}
[listener.dns]
bind = ["{listen}"]
mode = "dns"
[listener.dns.zone]
name = "gslb.example.com"
contact = "ops.example.com"
serial = 7
responses_per_subnet = 0
ns = [{{ name = "ns1.gslb.example.com", addresses = ["127.0.0.53", "::53"] }}, {{ name = "ns.elsewhere.example" }}]
apex = {{ pool = "hash", answers = 2 }}
[listener.dns.zone.records]
www = {{ pool = "web", answers = 2 }}
four = {{ pool = "web", answers = 4 }}
slow = {{ pool = "web", ttl = "1m" }}
never = {{ pool = "web", ttl = "0s" }}
only4 = {{ pool = "first" }}
first = {{ pool = "first", answers = 1 }}
hash = {{ pool = "hash", answers = 1 }}
many = {{ pool = "many", answers = 64 }}
"_http._tcp" = {{ pool = "web", type = "srv" }}
"_many._tcp" = {{ pool = "many", type = "srv", answers = 64 }}
[pool.web]
balance = "round_robin"
endpoints = ["10.9.0.1:80", {{ addr = "10.9.0.2:80", weight = 3 }}, "10.9.0.3:80", "[2001:db8::9]:80"]
[pool.first]
balance = "first"
endpoints = ["10.9.1.1:80", "10.9.1.2:80"]
[pool.hash]
balance = "maglev"
endpoints = ["10.9.2.1:80", "10.9.2.2:80"]
[pool.many]
endpoints = {many:?}
"#
            ),
        );
        let running = Running::start(&["run", "--config", &file]);
        DnsSetup { listen, admin, running, _folder: folder }
    }
}
