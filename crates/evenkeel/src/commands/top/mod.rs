//! `evenkeel top`: pages in the terminal that follow a running process, and keys that change it.
//!
//! 1. [`model`]: the state of the screen; [`keys`]: effects of keys; [`order`]: changes of an endpoint.
//! 2. [`draw`]: pages and lines.
//! 3. [`asking`]: threads that ask the process.

// Order: asking, draw, keys, model, order
mod asking;
mod draw;
mod keys;
mod model;
mod order;

use crate::arguments::Top;
use crate::commands::client::Client;
use crate::failure::Failure;
use crate::output::loses_other_end;
use asking::Tapping;
use keys::Wish;
use model::{Message, Model, Screen};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::process::{Signal, getpid, kill_process};
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Longest time until a key, or an answer of the process, takes effect.
const PATIENCE: Duration = Duration::from_millis(50);

/// Runs `evenkeel top`.
pub fn top(arguments: &Top) -> Result<(), Failure> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::running("top needs a terminal; evenkeel status prints the state once"));
    }
    let client = Client::new(&arguments.place)?;
    let (tell, told) = channel();
    let (orders, ordered) = channel();
    // Without a reachable process there is nothing to show.
    let _: evenkeel_view::Status = client.get("/v1/status")?;
    // A prompt would compete with the page for keys.
    let client = client.quiet();
    let open = client.opener();
    let (asks, signals) = (tell.clone(), tell.clone());
    let routes = Arc::<AtomicBool>::default();
    let wanted = routes.clone();
    std::thread::spawn(move || asking::ask(&client, &ordered, &wanted, &asks));
    std::thread::spawn(move || asking::signals(&signals));
    std::thread::spawn(end_with_terminal);

    let mut model = Model::default();
    if let Some(pool) = &arguments.pool {
        (model.screen, model.filter) = (Screen::Pools, pool.clone());
    }
    // Also restores the terminal if it panics.
    let mut terminal =
        ratatui::try_init().map_err(|error| Failure::running(format!("cannot use the terminal: {error}")))?;
    let done = follow(&mut terminal, &mut model, (&told, &tell), &orders, &routes, &open);
    // Not `restore`, which panics if the terminal is gone: it cannot print that it has failed.
    let done = done.and(ratatui::try_restore());
    done.map_err(|error| Failure::running(format!("cannot use the terminal: {error}")))
}

fn follow(
    terminal: &mut DefaultTerminal,
    model: &mut Model,
    (told, tell): (&Receiver<Message>, &Sender<Message>),
    orders: &Sender<order::Order>,
    routes: &AtomicBool,
    open: &(impl Fn() -> Result<Client, Failure> + Clone + Send + 'static),
) -> io::Result<()> {
    let mut tapping = None;
    let mut is_new = true;
    loop {
        routes.store(model.screen == Screen::Routes, Relaxed);
        // Open only while its page is shown.
        match model.screen {
            Screen::Tap => _ = tapping.get_or_insert_with(|| Tapping::start(open.clone(), tell.clone())),
            _ => tapping = None,
        }
        if std::mem::take(&mut is_new) {
            terminal.draw(|frame| draw::screen(frame, model))?;
        }
        if event::poll(PATIENCE)? {
            is_new = true;
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match keys::press(model, key) {
                    Some(Wish::Quit) => return Ok(()),
                    Some(Wish::Suspend) => suspend(terminal)?,
                    // The receiver ends only after this loop has ended.
                    Some(Wish::Do(order)) => _ = orders.send(order),
                    None => {}
                },
                _ => {}
            }
        }
        while let Ok(message) = told.try_recv() {
            if matches!(message, Message::End) {
                return Ok(());
            }
            is_new = true;
            model.take(message, Instant::now());
        }
    }
}

/// Ends the process when its terminal is gone. Reads of it return nothing from then on, without an error, and the reader of
/// keys tries again for ever. There is nothing to restore.
fn end_with_terminal() {
    if loses_other_end(io::stdin(), None) {
        std::process::exit(0);
    }
}

/// Gives the terminal to the shell, until it wants this again.
fn suspend(terminal: &mut DefaultTerminal) -> io::Result<()> {
    ratatui::restore();
    kill_process(getpid(), Signal::TSTP)?;
    *terminal = ratatui::try_init()?;
    terminal.clear()
}
