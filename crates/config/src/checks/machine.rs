//! Checks against the machine: files, folders and addresses that a start would need.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{AdminSocket, Formed, KeySource, network_list, user_list};
use crate::machine::{Found, Machine};
use crate::maps::{MapTable, file_rows};
use crate::plan::{Discovery, ERROR_PAGE_MAX, LineSink, LogTarget, Map, Plane, Runtime};
use crate::source::Span;
use crate::table::{Declared, Field, Named, Section};
use std::io::{self, ErrorKind};
use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// Help for a folder that does not exist.
const MAKE: &str = "create it; if systemd creates it (LogsDirectory=, RuntimeDirectory=), check with --elsewhere";

/// Smallest size of a key for sticky sessions, in bytes; the same as for a key in the file.
const SECRET_MIN: usize = 16;

/// Reports missing parts of the machine, and files without access.
pub(crate) fn check(root: &Section, machine: &Machine, findings: &mut Findings) {
    let telemetry = root.section("telemetry");
    for name in ["access_log", "journal"].into_iter().filter(|log| telemetry.has(log)) {
        let log = telemetry.section(name);
        if log.set("path").is_none_or(|path| path.is_broken()) {
            continue;
        }
        let (line, entry) = (LineSink::read(log.value("path")), LogTarget::read(log.value("path")));
        let path = match (name, line, entry) {
            ("access_log", LineSink::File(path), _) | ("journal", _, LogTarget::File(path)) => path,
            _ => continue,
        };
        check_log(&path, log.span_of("path"), machine, findings);
    }
    let explain = telemetry.section("explain");
    if let Some(path) = explain.text("token_file") {
        check_secret(Path::new(&path), explain.span_of("token_file"), machine, findings);
    }
    let traces = telemetry.section("traces");
    for key in ["headers_file", "ca"] {
        if let Some(path) = traces.text(key) {
            check_readable(Path::new(&path), traces.span_of(key), machine, findings);
        }
    }
    let acme = root.section("acme");
    if acme.has_read("state")
        && let Some(path) = acme.text("state")
    {
        check_state(Path::new(&path), acme.span_of("state"), machine, findings);
    }
    let disk = root.section("cache").section("disk");
    if let Some(path) = disk.text("path") {
        check_cache(Path::new(&path), disk.span_of("path"), machine, findings);
    }
    let admin = root.section("admin");
    if let Some(Formed::Socket(AdminSocket::At(path))) = admin.formed("bind") {
        check_socket(&path, admin.span_of("bind"), machine, findings);
    }
    for key in ["read_token", "write_token"] {
        let http = admin.section("http");
        if let Some(path) = http.text(key) {
            check_secret(&PathBuf::from(path), http.span_of(key), machine, findings);
        }
    }
    let runtime = root.section("runtime");
    if let Some(path) = runtime.text("state") {
        check_folder(Path::new(&path), runtime.span_of("state"), machine, findings);
    }
    let discovery = root.section("discovery");
    let servers = Discovery::TABLE.keys.iter().map(|key| discovery.section(key.name));
    let lists = root.named("pool").iter().map(|pool| pool.section.section("discover").section("http"));
    for section in servers.chain(lists) {
        for key in section.files() {
            if let Some(path) = section.text(key) {
                check_readable(Path::new(&path), section.span_of(key), machine, findings);
            }
        }
    }
    for pool in root.named("pool") {
        let sticky = pool.section.section("sticky");
        if let Some(path) = sticky.text("secret_file") {
            check_secret(&PathBuf::from(path), sticky.span_of("secret_file"), machine, findings);
        } else if let Some(set) = pool.section.set("sticky").filter(|_| sticky.set("secret").is_none()) {
            let key = Runtime::of(&runtime).sticky_key();
            match (machine.look)(&key) {
                Ok(_) => check_secret(&key, set.span, machine, findings),
                Err(_) => check_state(key.parent().unwrap_or(&key), set.span, machine, findings),
            }
        }
    }
    let (listeners, sets) = (root.named("listener"), root.named("filters"));
    let defaults = root.section("defaults").section("route");
    let sets = sets.iter().map(|named| &named.section).chain([&defaults]);
    let routes: Vec<&Section> = root.sections("route").into_iter().chain(sets).collect();
    for owner in listeners.iter().map(|named| &named.section).chain(routes.iter().copied()) {
        for page in owner.sections("error_pages") {
            for key in ["file", "errorfile"] {
                if let Some(path) = page.text(key) {
                    check_page(&PathBuf::from(path), page.span_of(key), machine, findings);
                }
            }
        }
    }
    let regex_size = Runtime::of(&runtime).regex_size;
    for named in root.named("map") {
        check_map(&named.section, regex_size, machine, findings);
    }
    for route in &routes {
        let access = route.section("access");
        let files = ["allow_files", "deny_files"].map(|key| access.texts(key)).concat();
        files.iter().for_each(|(path, span)| check_networks(Path::new(path), *span, machine, findings));
        let auth = route.section("basic_auth");
        if let Some(path) = auth.text("file") {
            check_users(Path::new(&path), auth.span_of("file"), machine, findings);
        }
    }
    for owner in routes {
        let jwt = owner.section("jwt");
        if let Some(Formed::KeySource(KeySource::File(path))) = jwt.formed("keys") {
            check_keys(&path, jwt.span_of("keys"), machine, findings);
        }
        if let Some(path) = jwt.text("ca") {
            check_readable(Path::new(&path), jwt.span_of("ca"), machine, findings);
        }
    }
    let http = admin.section("http");
    let of_admin = http.formed("bind").map(|bind| (bind, http.span_of("bind"), false));
    // Packets to an address of another plane only have to pass this machine.
    let needs_own =
        |named: &&Named| [Plane::Proxy, Plane::Ipvs].map(Plane::name).contains(&named.section.word("plane"));
    let of_listeners = listeners.iter().filter(needs_own).flat_map(|named| {
        let is_virtual = named.section.word("plane") == Plane::Ipvs.name();
        named.section.formed_list("bind").into_iter().map(move |(formed, span)| (formed, span, is_virtual))
    });
    for (formed, span, is_virtual) in of_admin.into_iter().chain(of_listeners) {
        if let Formed::Bind(addr) = formed
            && let Err(error) = (machine.has)(addr.ip())
        {
            let lacks_virtual = is_virtual && error.kind() == ErrorKind::AddrNotAvailable;
            match lacks_virtual {
                true => lacks_address(addr, span, findings),
                false => cannot_listen(addr, &error, span, machine, findings),
            }
        }
    }
}

/// Checks the folder of a file that will be created. True if it exists.
fn check_folder(path: &Path, span: Span, machine: &Machine, findings: &mut Findings) -> bool {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let message = match (machine.look)(folder) {
        Ok(Found::Folder) => return true,
        Ok(_) => format!("{} is not a folder", folder.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => format!("no such folder: {}", folder.display()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            not_mine(folder, "look into", span, findings);
            return false;
        }
        Err(error) => format!("{} cannot be used as a folder: {}", folder.display(), reason(&error)),
    };
    findings.add(Code::NotHere, span, message).help(MAKE);
    false
}

/// Checks a folder that is created at startup together with its parents.
fn check_state(path: &Path, span: Span, machine: &Machine, findings: &mut Findings) {
    let there = path.ancestors().find_map(|folder| (machine.look)(folder).ok().map(|found| (folder, found)));
    if let Some((at, Found::File | Found::Socket | Found::Other)) = there {
        let message = format!("{} is not a folder", at.display());
        findings.add(Code::NotHere, span, message).help("set a folder that evenkeel can write to or create");
    }
}

/// Checks the folder of the cache, which is made if its parent is there.
fn check_cache(path: &Path, span: Span, machine: &Machine, findings: &mut Findings) {
    check_state(path, span, machine, findings);
    if (machine.look)(path).is_err() {
        check_folder(path, span, machine, findings);
    } else {
        let file = path.join("responses");
        if matches!((machine.look)(&file), Ok(Found::File)) && (machine.append)(&file).is_err() {
            not_mine(&file, "write to", span, findings);
        }
    }
}

fn check_log(path: &Path, span: Span, machine: &Machine, findings: &mut Findings) {
    if !check_folder(path, span, machine, findings) {
        return;
    }
    match (machine.look)(path) {
        Ok(Found::Folder | Found::Socket) => {
            let message = format!("{} is not a writable file", path.display());
            findings.add(Code::NotHere, span, message).help("set a file in it, or \"-\" for standard output");
        }
        Ok(Found::File) if (machine.append)(path).is_err() => not_mine(path, "write to", span, findings),
        _ => {}
    }
}

fn check_socket(path: &Path, span: Span, machine: &Machine, findings: &mut Findings) {
    if check_folder(path, span, machine, findings)
        && let Ok(Found::Folder | Found::File | Found::Other) = (machine.look)(path)
    {
        let message = format!("{} exists and is not a socket", path.display());
        findings.add(Code::NotHere, span, message).help("set another path, or remove the file");
    }
}

/// Checks a file that is read at runtime.
fn check_readable(path: &Path, span: Span, machine: &Machine, findings: &mut Findings) {
    if is_secret_itself(path, span, machine, findings) {
        return;
    }
    match (machine.read)(path) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::PermissionDenied => not_mine(path, "read", span, findings),
        Err(error) => {
            let message = format!("cannot read {}: {}", path.display(), reason(&error));
            findings.add(Code::NotHere, span, message).help("create it, or leave the key out");
        }
    }
}

/// Reports a file that cannot be looked at and may be the secret itself, which messages must not have. True if it has.
pub(super) fn is_secret_itself(path: &Path, span: Span, machine: &Machine, findings: &mut Findings) -> bool {
    if !findings.is_hidden(span) || (machine.look)(path).is_ok() {
        return false;
    }
    findings
        .add(Code::NotHere, span, "there is no file of this name; the key takes the path of a file, not what is in it")
        .help("set the absolute path of a file; if it exists only where evenkeel runs, check with --elsewhere");
    true
}

fn check_secret(path: &Path, span: Span, machine: &Machine, findings: &mut Findings) {
    if is_secret_itself(path, span, machine, findings) {
        return;
    }
    let make = format!("create one: head -c 32 /dev/urandom | base64 > {}", path.display());
    let message = match (machine.look)(path) {
        Ok(Found::Other) => return,
        Ok(Found::Folder | Found::Socket) => format!("{} is not a regular file", path.display()),
        Ok(Found::File) => match (machine.read)(path) {
            Ok(key) => match key.trim_ascii_end().len() {
                SECRET_MIN.. => return,
                short => format!("the key in {} has {short} bytes; at least {SECRET_MIN} are required", path.display()),
            },
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return not_mine(path, "read", span, findings);
            }
            Err(error) => format!("cannot read {}: {}", path.display(), reason(&error)),
        },
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return not_mine(path, "read", span, findings),
        Err(error) => format!("cannot read {}: {}", path.display(), reason(&error)),
    };
    findings.add(Code::NotHere, span, message).help(make);
}

fn check_page(path: &Path, span: Span, machine: &Machine, findings: &mut Findings) {
    // Reading a pipe could block forever.
    if (machine.look)(path).is_ok_and(|found| found == Found::Other) {
        return;
    }
    let message = match (machine.read)(path) {
        Ok(page) if page.len() <= ERROR_PAGE_MAX => return,
        Ok(page) => format!("{} has {} bytes; the limit is {ERROR_PAGE_MAX}", path.display(), page.len()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return not_mine(path, "read", span, findings),
        Err(error) => format!("cannot read {}: {}", path.display(), reason(&error)),
    };
    findings
        .add(Code::NotHere, span, message)
        .help("set a file of up to 256 KiB, by its absolute path; if it exists only where evenkeel runs, check with --elsewhere");
}

fn check_keys(path: &Path, span: Span, machine: &Machine, findings: &mut Findings) {
    // Reading a pipe could block forever.
    if let Ok(Found::Folder | Found::Socket | Found::Other) = (machine.look)(path) {
        let message = format!("{} is not a regular file", path.display());
        findings.add(Code::NotHere, span, message).help("set a file with a JWK set");
        return;
    }
    match (machine.read)(path).map(|set| (machine.keys)(&set)) {
        Ok(Ok(())) => {}
        Ok(Err(why)) => {
            let message = format!("{} has no keys: {why}", path.display());
            findings.add(Code::NotHere, span, message).help("write a JWK set: { \"keys\": [...] }");
        }
        Err(_) => check_readable(path, span, machine, findings),
    }
}

fn check_networks(path: &Path, span: Span, machine: &Machine, findings: &mut Findings) {
    check_list(
        path,
        network_list,
        ["a network on each line", "write one network or address a line"],
        span,
        machine,
        findings,
    );
}

/// Checks the rows of a map.
fn check_map(section: &Section, regex_size: usize, machine: &Machine, findings: &mut Findings) {
    let map = Map::of(section);
    let Some(path) = map.file else { return };
    let span = section.span_of("file");
    match (machine.read)(&path) {
        Ok(text) => {
            let name = path.display().to_string();
            let rows = file_rows(&name, &text);
            let built = rows.and_then(|rows| MapTable::new(map.of, map.ignore_case, rows, regex_size));
            if let Err(faults) = built {
                let help = "each line is a key, white space and a value; the running rows stay until the file is right";
                findings.add(Code::BadRow, span, faults.in_file(&name)).help(help);
            }
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => not_mine(&path, "read", span, findings),
        Err(error) => {
            let message = format!("cannot read {}: {}", path.display(), reason(&error));
            findings.add(Code::NotHere, span, message).help("create it, with a key and a value on each line");
        }
    }
}

fn check_users(path: &Path, span: Span, machine: &Machine, findings: &mut Findings) {
    if is_secret_itself(path, span, machine, findings) {
        return;
    }
    let help = ["a user on each line", "each line is NAME:HASH, as htpasswd -B writes it"];
    check_list(path, user_list, help, span, machine, findings);
}

/// Checks the lines of a file. The help says their meaning, and how to write them.
fn check_list<T>(
    path: &Path,
    read: fn(&str, &[u8]) -> Result<T, String>,
    [lines, write]: [&str; 2],
    span: Span,
    machine: &Machine,
    findings: &mut Findings,
) {
    // Reading a pipe could block forever.
    if let Ok(Found::Folder | Found::Socket | Found::Other) = (machine.look)(path) {
        let message = format!("{} is not a regular file", path.display());
        findings.add(Code::NotHere, span, message).help(format!("set a file with {lines}"));
        return;
    }
    match (machine.read)(path).map(|text| read(&path.display().to_string(), &text)) {
        Ok(Ok(_)) => {}
        Ok(Err(errors)) => _ = findings.add(Code::NotHere, span, errors).help(write),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => not_mine(path, "read", span, findings),
        Err(error) => {
            let message = format!("cannot read {}: {}", path.display(), reason(&error));
            let help = "set the absolute path of a file; if it exists only where evenkeel runs, check with --elsewhere";
            findings.add(Code::NotHere, span, message).help(help);
        }
    }
}

/// Reports missing permissions as a warning: evenkeel may run as another user than the user that checks.
fn not_mine(path: &Path, what: &str, span: Span, findings: &mut Findings) {
    findings
        .add(Code::NotMine, span, format!("this user cannot {what} {}", path.display()))
        .help("run check as the user that runs evenkeel, who needs the permission");
}

/// Reports an address that the kernel has to have, although no process listens there.
fn lacks_address(addr: SocketAddr, span: Span, findings: &mut Findings) {
    let (ip, length) = (addr.ip(), if addr.is_ipv4() { 32 } else { 128 });
    findings
        .add(Code::NotHere, span, format!("this machine does not have the address {ip}, which plane = \"ipvs\" needs"))
        .help(format!("add it: ip address add {ip}/{length} dev lo"));
}

fn cannot_listen(addr: SocketAddr, error: &io::Error, span: Span, machine: &Machine, findings: &mut Findings) {
    let port = addr.port();
    let (message, help) = match error.kind() {
        ErrorKind::AddrNotAvailable => (
            format!("this machine does not have the address {}", addr.ip()),
            format!("\"ip addr\" lists its addresses; \"[::]:{port}\" or \"0.0.0.0:{port}\" stands for all of them"),
        ),
        _ if addr.is_ipv6() && (machine.has)(Ipv6Addr::LOCALHOST.into()).is_err() => {
            ("the kernel has no IPv6".to_string(), format!("write \"0.0.0.0:{port}\""))
        }
        // Transient reasons, such as too many open files.
        _ if addr.is_ipv4() || !matches!(error.kind(), ErrorKind::InvalidInput) => return,
        _ => (
            format!("{} is link-local and names no interface", addr.ip()),
            format!("write a global address, or \"[::]:{port}\" for all of them"),
        ),
    };
    findings.add(Code::NotHere, span, message).help(help);
}

/// Text of an error, without the number that the standard library appends.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "no such file".to_string(),
        _ => error.to_string().split(" (os error").next().unwrap_or_default().to_lowercase(),
    }
}
