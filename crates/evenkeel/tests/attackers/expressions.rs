//! Fields that are hard for the regular expression of a route: they cost 15 to 520 ms each.

use crate::always_ready::pump;
use crate::http2::counted;
use crate::scene::{Attack, Scene, stay_unharmed};

#[test]
fn fields_that_are_hard_for_an_expression_harm_no_other_client() {
    let more = "[[route]]\npool = 'web'\n[[route]]\npool = 'web'\n\
                match = { header = { x-hard = { regex = '(?:[ab]*a){30}[ab]{100}x' } } }";
    let scene = Scene::start("expressions", 2, "", more);
    let request = |len: u32| {
        let value: String = (0..len).map(|at| if at.wrapping_mul(at) % 7919 % 2 == 0 { 'a' } else { 'b' }).collect();
        format!("GET / HTTP/1.1\r\nhost: a\r\nx-hard: {value}\r\n\r\n")
    };
    // One is refused, and the other costs as much as a request may.
    let requests = [request(15_000), request(600)].concat();
    let attack = |attack: &Attack| pump(attack, &scene.listen, b"", requests.as_bytes());
    stay_unharmed("fields that are hard for an expression", scene.innocents(), 10, attack);
    assert!(counted(&scene, "evenkeel_http_regex_refused_requests_total", "listener=\"web\"") > 0);
}
