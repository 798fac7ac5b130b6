//! Effects of keys on the model.

use super::model::{Column, Entry, Model, Screen};
use super::order::{Order, What};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Effect of a key outside of the model.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish {
    Quit,
    /// Lets the shell have the terminal for a while.
    Suspend,
    /// Asks the process for this.
    Do(Order),
}

/// Every key and its effect, for the page of keys.
pub const KEYS: &[(&str, &str)] = &[
    ("1 2 3 4, Tab", "overview, pools, tap, routes"),
    ("\u{2191} \u{2193}, k j", "the row above, the row below; also PageUp, PageDown, Home, End"),
    ("Enter", "details of an endpoint, a request or a route; opens and closes a pool"),
    ("/", "shows only rows that contain a text; Esc shows all again"),
    ("s", "sorts endpoints by the next column"),
    ("space", "pauses and resumes the tap"),
    ("d D", "drains the endpoint; D also moves its sticky clients"),
    ("u", "undrains it"),
    ("w", "sets its weight"),
    ("x o a", "counts it as down, as up, or as its checks show"),
    ("e r", "ejects it, ends its ejection"),
    ("q, Ctrl-C", "quits"),
];

/// Does what a key means now.
pub fn press(model: &mut Model, key: KeyEvent) -> Option<Wish> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(Wish::Quit),
            KeyCode::Char('z') => Some(Wish::Suspend),
            _ => None,
        };
    }
    match std::mem::take(&mut model.entry) {
        Entry::None => command(model, key.code),
        Entry::Help => None,
        Entry::Confirm(order) => (key.code == KeyCode::Char('y')).then_some(Wish::Do(order)),
        Entry::Filter => {
            match key.code {
                KeyCode::Esc => model.filter.clear(),
                KeyCode::Enter => return None,
                KeyCode::Backspace => _ = model.filter.pop(),
                KeyCode::Char(c) => model.filter.push(c),
                _ => {}
            }
            if key.code != KeyCode::Esc {
                model.entry = Entry::Filter;
            }
            model.go(0);
            None
        }
        Entry::Weight(mut typed) => {
            match key.code {
                KeyCode::Esc => return None,
                KeyCode::Enter => return weigh(model, &typed),
                KeyCode::Backspace => _ = typed.pop(),
                KeyCode::Char(c) if c.is_ascii_digit() && typed.len() < 5 => typed.push(c),
                _ => {}
            }
            model.entry = Entry::Weight(typed);
            None
        }
    }
}

fn command(model: &mut Model, key: KeyCode) -> Option<Wish> {
    model.said = None;
    match key {
        KeyCode::Char('q') => return Some(Wish::Quit),
        KeyCode::Char('?' | 'h') => model.entry = Entry::Help,
        KeyCode::Char('1') => turn(model, Screen::Overview),
        KeyCode::Char('2') => turn(model, Screen::Pools),
        KeyCode::Char('3') => turn(model, Screen::Tap),
        KeyCode::Char('4') => turn(model, Screen::Routes),
        KeyCode::Tab => turn(
            model,
            match model.screen {
                Screen::Overview => Screen::Pools,
                Screen::Pools => Screen::Tap,
                Screen::Tap => Screen::Routes,
                Screen::Routes => Screen::Overview,
            },
        ),
        KeyCode::Up | KeyCode::Char('k') => model.go(-1),
        KeyCode::Down | KeyCode::Char('j') => model.go(1),
        KeyCode::PageUp => model.go(-10),
        KeyCode::PageDown => model.go(10),
        KeyCode::Home => model.go(isize::MIN),
        KeyCode::End => model.go(isize::MAX),
        KeyCode::Char('/') => model.entry = Entry::Filter,
        KeyCode::Char('s') => {
            model.column = Column::ALL[(model.column as usize + 1) % Column::ALL.len()].0;
        }
        KeyCode::Char(' ') => model.is_paused = !model.is_paused,
        KeyCode::Enter => enter(model),
        // Leaves the innermost view first.
        KeyCode::Esc if model.is_deep => model.is_deep = false,
        KeyCode::Esc => model.filter.clear(),
        KeyCode::Char('w') if model.endpoint().is_some() => model.entry = Entry::Weight(String::new()),
        KeyCode::Char(c) => order(model, c),
        _ => {}
    }
    None
}

fn turn(model: &mut Model, screen: Screen) {
    (model.screen, model.is_deep, model.request, model.route) = (screen, false, 0, 0);
}

fn enter(model: &mut Model) {
    match (model.screen, &model.selected) {
        (Screen::Tap, _) => model.is_deep = !model.is_deep && !model.requests().is_empty(),
        (Screen::Routes, _) => model.is_deep = !model.is_deep && !model.routes().is_empty(),
        (Screen::Pools, Some((_, Some(_)))) => model.is_deep = !model.is_deep,
        (Screen::Pools, Some((pool, None))) => {
            let pool = pool.clone();
            if !model.collapsed.remove(&pool) {
                model.collapsed.insert(pool);
            }
        }
        _ => {}
    }
}

/// Asks for confirmation of an order.
fn order(model: &mut Model, key: char) {
    let what = match key {
        'd' => What::Drain,
        'D' => What::DrainNow,
        'u' => What::Undrain,
        'x' => What::Down,
        'o' => What::Up,
        'a' => What::Auto,
        'e' => What::Eject,
        'r' => What::Restore,
        _ => return,
    };
    confirm(model, what);
}

fn weigh(model: &mut Model, typed: &str) -> Option<Wish> {
    match typed.parse() {
        Ok(weight @ 0..=65_535) => confirm(model, What::Weight(Some(weight))),
        Ok(_) => model.said = Some(Err("a weight is 0 to 65535".into())),
        Err(_) => confirm(model, What::Weight(None)),
    }
    None
}

fn confirm(model: &mut Model, what: What) {
    // Orders are given where the endpoint is seen.
    let row = if model.screen == Screen::Pools { model.endpoint() } else { None };
    let order = row.and_then(|row| Some(Order::new(row.pool, row.endpoint?, what)));
    match order {
        Some(order) => model.entry = Entry::Confirm(order),
        None => model.said = Some(Err("select an endpoint on the page of pools (2)".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::seen;
    use super::*;
    use std::time::Instant;

    fn typed(model: &mut Model, keys: &str) -> Option<Wish> {
        let code = |c| match c {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '\u{8}' => KeyCode::Backspace,
            '\t' => KeyCode::Tab,
            c => KeyCode::Char(c),
        };
        keys.chars().map(|c| press(model, KeyEvent::new(code(c), KeyModifiers::NONE))).last().flatten()
    }

    fn model() -> Model {
        let mut model = Model::default();
        model.take(seen(1), Instant::now());
        model
    }

    #[test]
    fn an_order_is_given_once_it_is_confirmed() {
        let mut model = model();
        assert_eq!(typed(&mut model, "d"), None);
        assert!(model.said.as_ref().is_some_and(Result::is_err), "nothing is seen of endpoints here");
        assert_eq!(typed(&mut model, "2jd"), None);
        assert!(matches!(&model.entry, Entry::Confirm(order) if order.text().starts_with("Drain one of shop")));
        assert_eq!(typed(&mut model, "n"), None);
        assert_eq!(model.entry, Entry::None);
        let Some(Wish::Do(order)) = typed(&mut model, "dy") else { panic!("{model:?}") };
        assert_eq!(order.request().2.as_deref(), Some(r#"{"drain":"keep-sessions"}"#));
        let Some(Wish::Do(order)) = typed(&mut model, "w12\u{8}3\ny") else { panic!("{model:?}") };
        assert_eq!(order.request().2.as_deref(), Some(r#"{"weight":13}"#));
        let Some(Wish::Do(order)) = typed(&mut model, "w\ny") else { panic!("{model:?}") };
        assert_eq!(order.request().2.as_deref(), Some(r#"{"weight":null}"#));
        assert_eq!(typed(&mut model, "w99999\n"), None);
        assert_eq!((&model.entry, &model.said), (&Entry::None, &Some(Err("a weight is 0 to 65535".into()))));
    }

    #[test]
    fn what_is_typed_as_a_text_is_no_command() {
        let mut model = model();
        assert_eq!(typed(&mut model, "2/qd"), None);
        assert_eq!((&*model.filter, &model.entry), ("qd", &Entry::Filter));
        typed(&mut model, "\u{8}\u{8}two\n");
        assert_eq!((model.rows().len(), &model.entry), (2, &Entry::None));
        typed(&mut model, "\u{1b}");
        assert_eq!((model.rows().len(), &*model.filter), (4, ""));
        assert_eq!(typed(&mut model, "q"), Some(Wish::Quit));
    }

    #[test]
    fn pages_and_pools_open_and_close() {
        let mut model = model();
        typed(&mut model, "\t\n");
        assert_eq!((model.screen, model.rows().len()), (Screen::Pools, 2));
        typed(&mut model, "\nj\n");
        assert!(model.is_deep && model.rows().len() == 4);
        typed(&mut model, "\u{1b}s");
        assert_eq!((model.is_deep, model.column), (false, Column::Name));
        typed(&mut model, "?");
        assert_eq!(model.entry, Entry::Help);
        typed(&mut model, "q");
        assert_eq!(model.entry, Entry::None, "any key ends it");
        typed(&mut model, "3 ");
        assert!(model.is_paused && model.screen == Screen::Tap);
    }
}
