//! Setup of a proxy whose costs are measured, and the check that it relays answers unchanged. One worker, reused
//! connections to endpoints, session tickets, no logging unless the case asks for it, and no limit that the load could
//! reach.

use super::cases::METHOD;
use super::grpc;
use crate::balancers::{
    Algorithm, Back, Balancer, Care, Front, Keys, Listener, Pool, Reuse, Route, Running, Setup, Timeouts, maps,
};
use crate::child;
use crate::error::{Error, Result, While};
use crate::http::{self, local};
use crate::load::http3;
use crate::origin;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Creates the setup for these protocols of clients and endpoints.
///
/// # Errors
/// If the system has no free port.
pub fn setup(front: Front, back: Back, endpoints: [u16; 2]) -> Result<Setup> {
    let bind = local(origin::free_ports()?[0]);
    let pool = Pool {
        name: "app",
        endpoints: endpoints.map(local).to_vec(),
        algorithm: Algorithm::Random,
        back,
        care: Care::Checked,
        ..Pool::default()
    };
    let setup = Setup { pools: vec![pool], tuned: true, ..Setup::default() };
    if front == Front::Tcp {
        let timeouts = Timeouts { idle: Duration::from_secs(300), ..Timeouts::default() };
        let listeners = vec![Listener::to("app", "web", bind, front)];
        return Ok(Setup { connections: 24_000, listeners, timeouts, ..setup });
    }
    Ok(Setup {
        listeners: vec![Listener::new("web", bind, front)],
        routes: vec![Route::new("/", "app")],
        reuse: if front == Front::Http1 { Reuse::Always } else { Reuse::Many },
        ..setup
    })
}

/// Starts a proxy on a core and checks that it relays answers byte for byte, in the protocol of the clients.
///
/// # Errors
/// If it cannot run this setup, does not start, or changes an answer.
pub fn start(balancer: &Balancer, setup: Setup, core: usize) -> Result<Running> {
    let running = balancer.start(child::on_core(core)?, setup)?;
    let changed = |error| Error::Refused(format!("{}: {error}\n{}", running.name, running.last_words()));
    verify(&running).map_err(changed)?;
    Ok(running)
}

/// Writes the gRPC message to a file and returns its path.
///
/// # Errors
/// If it cannot be written.
pub fn message(folder: &Path) -> Result<PathBuf> {
    let path = folder.join("message");
    std::fs::write(&path, grpc::message()).or_say(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// URL of a path at a proxy.
pub fn url(front: Front, port: u16, path: &str) -> String {
    let scheme = if front.is_tls() { "https" } else { "http" };
    format!("{scheme}://127.0.0.1:{port}{path}")
}

/// Requests each file, or calls the gRPC method, in the protocol of the clients. Of rules, those that a response shows
/// must have been followed.
fn verify(running: &Running) -> Result<()> {
    let (front, port, folder) = (running.setup().listeners[0].front, running.port(), running.folder());
    if running.setup().pools[0].back == Back::Grpc {
        let sent = grpc::message();
        let head = ask(port, front, METHOD, Some(&message(folder)?), folder, &sent)?;
        let good = head.lines().any(|line| line.eq_ignore_ascii_case("grpc-status: 0"));
        return if good { Ok(()) } else { Err(Error::Refused(format!("the trailers are lost:\n{head}"))) };
    }
    if matches!(front, Front::Http1 | Front::Tcp) {
        let ruled = running.setup().routes.iter().find(|route| route.ruled);
        let prefix = ruled.map_or("", |route| route.path);
        if ruled.is_some() {
            let (path, size) = origin::FILES[0];
            let path = [prefix, path].concat();
            let head = ask(port, front, &path, None, folder, &origin::content(size))?.to_ascii_lowercase();
            if !head.contains("x-content-type-options: nosniff") || head.contains("etag:") {
                return Err(Error::Refused(format!("the rules are not followed:\n{head}")));
            }
        }
        if running.setup().routes.iter().any(|route| route.maps.is_some()) {
            verify_maps(port)?;
        }
        return origin::verify(port, prefix);
    }
    for (path, size) in origin::FILES {
        if front == Front::H3 {
            if http3::get(port, path)? != origin::content(size) {
                return Err(Error::Refused(format!("{path} is answered with other bytes over HTTP/3")));
            }
            continue;
        }
        ask(port, front, path, None, folder, &origin::content(size))?;
    }
    Ok(())
}

/// Checks that the endpoint gets the values of all maps.
fn verify_maps(port: u16) -> Result<()> {
    for row in [0, 123, maps::ROWS - 1] {
        let path = format!("/fields?{}", Keys::query(row));
        let wanted: String = (0..10).map(|map| format!("{} ", maps::value(map, row))).collect();
        let found = http::get(&mut http::connect(port)?, &path, "1.1")?;
        if found != wanted.as_bytes() {
            let found = String::from_utf8_lossy(&found);
            return Err(Error::Refused(format!("the endpoint gets the values \"{found}\" for {path}")));
        }
    }
    Ok(())
}

/// Sends a request with curl and compares the body. Returns the fields of head and trailers.
fn ask(port: u16, front: Front, path: &str, message: Option<&Path>, folder: &Path, wanted: &[u8]) -> Result<String> {
    let (head, body) = (folder.join("head"), folder.join("body"));
    let (protocol, version) = match front {
        Front::H2c => ("--http2-prior-knowledge", "HTTP/2 200"),
        Front::H2 => ("--http2", "HTTP/2 200"),
        _ => ("--http1.1", "HTTP/1.1 200"),
    };
    let mut command = vec![child::find("curl")?];
    command.extend(["-s", "-S", "-k", "--max-time", "10", protocol, "-D"].map(str::to_owned));
    command.extend([head.display().to_string(), "-o".into(), body.display().to_string()]);
    if let Some(message) = message {
        command
            .extend(["-H", "content-type: application/grpc", "-H", "te: trailers", "--data-binary"].map(String::from));
        command.push(format!("@{}", message.display()));
    }
    let url = url(front, port, path);
    command.push(url.clone());
    let output = child::output(&command, Duration::from_secs(20))?;
    if !output.success {
        return Err(Error::Refused(format!("{url}: {}", output.text.trim())));
    }
    let read = |path: &Path| std::fs::read(path).or_say(|| format!("cannot read {}", path.display()));
    let head = String::from_utf8_lossy(&read(&head)?).into_owned();
    if !head.starts_with(version) {
        return Err(Error::Refused(format!("{url}: not a 200 in the protocol meant:\n{head}")));
    }
    if read(&body)? != wanted {
        return Err(Error::Refused(format!("{url} is answered with other bytes")));
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balancers::{KINDS, written};
    use crate::certificates::Files;

    /// Protocols of clients and endpoints, true to close connections to endpoints, true to log requests.
    const PAIRS: [(Front, Back, bool, bool); 10] = [
        (Front::Http1, Back::Http1, false, false),
        (Front::Http1, Back::Http1, true, false),
        (Front::Http1, Back::Http1, false, true),
        (Front::H2c, Back::Http1, false, false),
        (Front::H2c, Back::H2c, false, false),
        (Front::H2c, Back::Grpc, false, false),
        (Front::H2, Back::Http1, false, false),
        (Front::H3, Back::Http1, false, false),
        (Front::Https, Back::Http1, false, false),
        (Front::Tcp, Back::Http1, false, false),
    ];

    #[test]
    fn each_pair_of_protocols_has_its_configuration_and_names_the_endpoints() {
        let files = Files { certificate: "some.crt".into(), key: "some.key".into(), both: "some.pem".into() };
        // Varnish only answers from its cache.
        for kind in KINDS.iter().filter(|kind| kind.name != "varnish") {
            let mut texts: Vec<String> = Vec::new();
            for (front, back, closes, logs) in PAIRS {
                let setup = setup(front, back, [20001, 20002]).expect("there are ports");
                let reuse = if closes { Reuse::Never } else { setup.reuse };
                let mut setup = Setup { certificate: Some(files.clone()), reuse, logs, ..setup };
                setup.listeners[0].bind = local(1);
                let Ok(text) = written(kind.name, &setup) else { continue };
                assert!(text.contains("20001") && text.contains("20002"), "{}: {text}", kind.name);
                assert_eq!(text.contains("some."), front.is_tls(), "{}: {text}", kind.name);
                let log = text.contains("127.0.0.1:4 ") || text.contains("access.log");
                assert_eq!(log, logs, "{}: {text}", kind.name);
                texts.push(text);
            }
            // A proxy may need no setting for gRPC, or for HTTP/2 over TLS.
            let all = texts.len();
            texts.sort_unstable();
            texts.dedup();
            assert!(!texts.is_empty() && texts.len() + 2 >= all, "{}: {} of {all}", kind.name, texts.len());
        }
    }

    #[test]
    fn maps_have_files_for_each_balancer_that_has_maps() {
        for (kind, keys, rows) in [
            ("evenkeel", Keys::Exact, ["match = \"exact\"", "\nk0007/item value-9-7\n"]),
            ("evenkeel", Keys::Prefix, ["match = \"prefix\"", "\nk0007 value-9-7\n"]),
            ("evenkeel", Keys::Expression, ["match = \"regex\"", "\n^k0007/[a-z]+$ value-9-7\n"]),
            ("haproxy", Keys::Exact, ["map_str(", "\nk0007/item value-9-7\n"]),
            ("haproxy", Keys::Prefix, ["map_beg(", "\nk0007 value-9-7\n"]),
            ("haproxy", Keys::Expression, ["map_reg(", "\n^k0007/[a-z]+$ value-9-7\n"]),
            ("nginx", Keys::Exact, ["X-M9 $m9", "\nk0007/item value-9-7;\n"]),
            ("nginx", Keys::Prefix, ["X-M9 $m9", "\n~^k0007 value-9-7;\n"]),
            ("nginx", Keys::Expression, ["X-M9 $m9", "\n~^k0007/[a-z]+$ value-9-7;\n"]),
        ] {
            let mut setup = setup(Front::Http1, Back::Http1, [20001, 20002]).expect("there are ports");
            setup.routes[0].maps = Some(keys);
            let text = written(kind, &setup).expect("it has maps");
            assert!(rows.iter().all(|row| text.contains(row)), "{kind}, {keys:?}: {}", &text[..2000]);
            assert_eq!(text.matches("value-9-").count(), maps::ROWS as usize, "{kind}, {keys:?}");
            assert!(written("envoy", &setup).is_err());
        }
    }

    #[test]
    fn caches_name_the_endpoints_and_others_say_that_they_are_none() {
        let mut setup = setup(Front::Http1, Back::Http1, [20001, 20002]).expect("there are ports");
        assert!(written("varnish", &setup).is_err());
        setup.routes[0].cached = true;
        for kind in ["evenkeel", "haproxy", "nginx", "varnish"] {
            let text = written(kind, &setup).expect("it has a cache");
            assert!(
                text.contains("20001") && text.contains("20002") && text.contains("cache") | text.contains("ttl"),
                "{text}"
            );
        }
        assert!(written("envoy", &setup).is_err());
    }
}
