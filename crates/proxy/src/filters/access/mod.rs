//! Filter that answers requests of clients whose networks a route does not allow, by its [`lists`].

pub mod lists;

use super::exchange::Exchange;
use super::filter::{DryRun, Filter, Own, Predict, RequestHead, Verdict};
use super::row::Build;
use super::step::Step;
use crate::body::response::Response;
use evenkeel_balance::published::Reader;
use lists::{AccessLists, Table};
use std::borrow::Cow;
use std::cell::RefCell;

struct Networks {
    table: RefCell<Reader<Table>>,
    /// Status of the response to refused requests.
    status: u16,
}

pub fn build(from: &Build<'_>) -> Option<Step> {
    let list = from.resources.of::<AccessLists>().of(&from.route.as_ref()?.plan.name)?;
    Some(Box::new(Networks { table: list.reader().into(), status: list.status }))
}

impl Filter for Networks {
    type State = ();

    fn request(&self, _: &mut Own<()>, cx: &mut Exchange<'_>, _: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let mut table = self.table.borrow_mut();
        table.refresh();
        match table.get().allows(cx.client()) {
            true => Verdict::Next,
            false => Verdict::Answer(self.refuse(cx)),
        }
    }

    fn did(&self, _: Option<&()>, cx: &Exchange<'_>) -> Cow<'static, str> {
        let (client, table) = (cx.client(), self.table.borrow());
        match (table.get().allows(client), table.get().lists(client)) {
            (true, true) => format!("{client} is in an allowed network").into(),
            (true, false) => "".into(),
            (false, true) => format!("refused: {client} is in a denied network").into(),
            (false, false) => format!("refused: {client} is in no allowed network").into(),
        }
    }
}

impl Predict for Networks {
    fn dry_run(&self, own: &mut Own<()>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> DryRun {
        let verdict = self.request(own, cx, head);
        let why = self.did(None, cx);
        match verdict {
            Verdict::Answer(response) => {
                DryRun::Answer(response, why.strip_prefix("refused: ").unwrap_or(&why).to_string().into())
            }
            _ => DryRun::Next(why),
        }
    }
}

impl Networks {
    #[cold]
    fn refuse(&self, cx: &Exchange<'_>) -> Response {
        cx.stats.access_refused.add(1);
        Response::new(self.status, "this client may not use the route: see its access lists")
    }
}
