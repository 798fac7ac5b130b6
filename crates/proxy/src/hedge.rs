//! Whose answer comes first? A second endpoint is asked as well when the first takes longer than the pool mostly does.
//! A tick of the wheel is longer than most waits for a second copy, so those wait by alarms; only routes that hedge pay.

use crate::attempt::{Lane, give_up, reach, unreachable};
use crate::attempts::Opened;
use crate::client::Client;
use crate::deadline::Elapsed;
use crate::event_loop::alarm;
use crate::fault::Fault;
use crate::pick::InFlight;
use crate::record::Record;
use crate::retries::Tries;
use crate::stream::Stream;
use crate::talk::write_some;
use evenkeel_balance::Clock;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// The lane whose endpoint spoke first, or the only one left. `request` is all of the request, to be sent once more.
///
/// # Errors
/// Neither spoke in time, or the client went away: then with the first lane.
pub async fn race<'r>(
    client: &'r Client<'_>,
    record: &mut Record<'_>,
    opened: &Opened<'r>,
    request: &[u8],
    tries: &Tries<'r>,
    first: Lane<'r>,
    delay_ns: u64,
) -> Result<Lane<'r>, (Lane<'r>, Fault)> {
    let (timer, clock) = (&client.timer, &client.worker.clock);
    let limit = tries.timeouts(opened.timeouts).response;
    timer.set(limit.map_or(u64::MAX, |limit| timer.tick_after(limit)).min(opened.deadline));
    let early = timer.limit(pin!(alarm::timeout(Duration::from_nanos(delay_ns), speaks(&first.stream)))).await;
    match early {
        Ok(Some(_)) => return Ok(first),
        Ok(None) => {}
        Err(_) => return Err((first, Fault::TimedOut)),
    }
    let Ok(second) = InFlight::start(clock, opened.pool, opened.key, &[first.ticket.slot()]) else { return Ok(first) };
    if !tries.hedge(clock.now()) {
        return Ok(first);
    }
    opened.pool.stats.hedges.add(1);
    tries.tried.borrow_mut().push(second.slot());
    record.tries += 1;
    let mut lost = LostLanes::default();
    let racing = first_to_speak(client, record, opened, request, &first.stream, &second, &mut lost);
    let winner = timer.limit(pin!(racing)).await;
    let end = match winner {
        Ok(Winner::Second(stream)) => {
            return Ok(second_won(record, opened, tries, first, Lane { ticket: second, stream }, lost.first));
        }
        Ok(Winner::First) => Ok(first),
        Ok(Winner::ClientGone) => Err((first, Fault::ClientGone)),
        Err(Elapsed) => Err((first, Fault::TimedOut)),
    };
    match lost.second {
        Some(Lost::Unreachable(error)) => drop(unreachable(opened.pool, second, error)),
        Some(Lost::Closed) => drop(give_up(second, Fault::NoResponse)),
        // The other was faster, or is as late and had more time.
        None => drop(give_up(second, Fault::Overtaken)),
    }
    end
}

/// The second lane goes on; the first is given up, or was lost before.
fn second_won<'r>(
    record: &mut Record<'_>,
    opened: &Opened<'r>,
    tries: &Tries<'r>,
    first: Lane<'r>,
    second: Lane<'r>,
    first_lost: bool,
) -> Lane<'r> {
    tries.on_answer(first.ticket.latency_ns(), second.ticket.began());
    opened.pool.stats.hedges_won.add(1);
    record.endpoint = Some(second.ticket.endpoint.clone());
    give_up(first.ticket, if first_lost { Fault::NoResponse } else { Fault::Overtaken });
    second
}

enum Winner {
    First,
    Second(Stream),
    ClientGone,
}

/// Why a second lane is lost: it could not be reached, or closed without a word.
enum Lost {
    Unreachable(Option<std::io::Error>),
    Closed,
}

/// Lanes that closed, or could not be reached.
#[derive(Default)]
struct LostLanes {
    first: bool,
    second: Option<Lost>,
}

/// Listens to both until one speaks, or both are lost.
async fn first_to_speak(
    client: &Client<'_>,
    record: &Record<'_>,
    opened: &Opened<'_>,
    request: &[u8],
    first: &Stream,
    second: &InFlight<'_>,
    lost: &mut LostLanes,
) -> Winner {
    let mut asking = pin!(ask(client, record, opened, request, second));
    let mut waiting = pin!(speaks(first));
    poll_fn(|cx| {
        if client.stream.poll_reset(cx).is_ready() {
            return Poll::Ready(Winner::ClientGone);
        }
        if !lost.first
            && let Poll::Ready(spoke) = waiting.as_mut().poll(cx)
        {
            if spoke || lost.second.is_some() {
                return Poll::Ready(Winner::First);
            }
            lost.first = true;
        }
        if lost.second.is_none()
            && let Poll::Ready(asked) = asking.as_mut().poll(cx)
        {
            match asked {
                Ok(stream) => return Poll::Ready(Winner::Second(stream)),
                Err(why) => lost.second = Some(why),
            }
            if lost.first {
                return Poll::Ready(Winner::First);
            }
        }
        Poll::Pending
    })
    .await
}

/// Asks the second endpoint, and waits until it says something. An idle connection that it has just closed is replaced.
async fn ask(
    client: &Client<'_>,
    record: &Record<'_>,
    opened: &Opened<'_>,
    request: &[u8],
    ticket: &InFlight<'_>,
) -> Result<Stream, Lost> {
    let mut idle = opened.pool.take_idle(&ticket.endpoint, client.worker.clock.now());
    loop {
        let reused = idle.is_some();
        match ask_on(client, record, opened, request, ticket, idle.take()).await {
            Err(_) if reused => {}
            asked => return asked,
        }
    }
}

async fn ask_on(
    client: &Client<'_>,
    record: &Record<'_>,
    opened: &Opened<'_>,
    request: &[u8],
    ticket: &InFlight<'_>,
    idle: Option<Stream>,
) -> Result<Stream, Lost> {
    let reaching = reach(client, record, opened.pool, &ticket.endpoint, idle, request);
    let reached = alarm::timeout(opened.timeouts.connect, reaching).await;
    let (stream, mut sent) = match reached {
        Some(Ok(reached)) => reached,
        Some(Err(error)) => return Err(Lost::Unreachable(Some(error))),
        None => return Err(Lost::Unreachable(None)),
    };
    while sent < request.len() {
        sent += write_some(&stream, &request[sent..]).await.map_err(|_| Lost::Closed)?;
    }
    if speaks(&stream).await { Ok(stream) } else { Err(Lost::Closed) }
}

/// Waits until the other side has said something; `false` if it closed instead.
async fn speaks(stream: &Stream) -> bool {
    poll_fn(|cx| stream.poll_peek(cx)).await.is_ok_and(|n| n > 0)
}
