//! Passwords that are guessed from 24 addresses of 6 networks, which had all places of those that wait to be verified. 17
//! addresses were enough for that.

use crate::http2::counted;
use crate::scene::{Attack, Innocent, Scene, connect_from, stay_unharmed};
use crate::support::ask;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

/// By `openssl passwd -6`, as the tests of glibc have it.
const HASH: &str =
    "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1";
const PASSWORD: &str = "Hello world!";

/// Users of the innocent client, each of whom it is once: their passwords are not remembered.
const USERS: u32 = 2000;

/// The base64 of credentials.
fn encoded(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in text.as_bytes().chunks(3) {
        let bits = three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        let digit = |at: usize| char::from(DIGITS[(bits >> (18 - 6 * at)) as usize & 63]);
        (0..4).for_each(|at| out.push(if at <= three.len() { digit(at) } else { '=' }));
    }
    out
}

fn request(user: &str, password: &str) -> String {
    let credentials = encoded(&format!("{user}:{password}"));
    format!("GET /staff HTTP/1.1\r\nhost: a\r\nauthorization: Basic {credentials}\r\n")
}

#[test]
fn guesses_from_many_addresses_keep_no_user_out() {
    let mut users = String::new();
    (0..USERS).for_each(|n| writeln!(users, "u{n}:{HASH}").expect("a string takes it"));
    let folder = crate::support::Folder::new("attackers-guesses-users");
    let file = folder.file("users", &users);
    let more = format!(
        "[[route]]\npool = 'web'\n[[route]]\npool = 'web'\nmatch = {{ prefix = '/staff' }}\nbasic_auth = {{ file = '{file}' }}"
    );
    let scene = Scene::start("guesses", 2, "", &more);
    let (listen, mut user) = (scene.listen.clone(), 0..USERS);
    let innocent = Innocent::new("users whose passwords are not remembered", move || {
        let user = format!("u{}", user.next().ok_or("all users have asked")?);
        let answer = ask(&listen, &format!("{}connection: close\r\n\r\n", request(&user, PASSWORD)));
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.starts_with("HTTP/1.1 200 ") { Ok(()) } else { Err(answer) }
    });
    let numbers = AtomicU32::new(0);
    // Each guesses in four requests at a time, which is all that an address may have.
    let attack = |attack: &Attack| {
        let number = numbers.fetch_add(1, SeqCst);
        let (address, mut guess) = (format!("127.{}.0.{}:0", 9 + number / 16, 1 + number % 16 / 4), 0);
        while !attack.is_over() {
            let Some(stream) = connect_from(&address, &scene.listen) else { continue };
            stream.set_read_timeout(Some(Duration::from_secs(1))).expect("a socket");
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            loop {
                guess += 1;
                let request = format!("{}\r\n", request("u1", &format!("{number} {guess}")));
                if attack.is_over() || stream.get_mut().write_all(request.as_bytes()).is_err() {
                    break;
                }
                attack.hit();
                // The status; what is behind it is left to the next connection.
                if stream.read_line(&mut line).is_err() || line.is_empty() {
                    continue;
                }
                break;
            }
        }
    };
    let mut innocents = scene.innocents();
    innocents.push(innocent);
    stay_unharmed("guesses from 24 addresses", innocents, 4 * 24, attack);
    assert!(counted(&scene, "evenkeel_http_auth_refused_requests_total", "listener=\"web\"") > 0);
}
