//! In which order are things measured that are compared? Round after round, each round all of them, each time another one first:
//! what the machine does meanwhile meets all alike.

use crate::child;
use crate::error::Result;
use crate::progress::Progress;

/// What was measured of some things: by thing, then by round.
#[derive(Clone, Debug, Default)]
pub struct Rounds<T> {
    runs: Vec<Vec<T>>,
}

impl<T> Rounds<T> {
    /// Measures each of `names` once a round. `measure`: by index.
    ///
    /// # Errors
    /// Those of a measurement, or the experiment is interrupted.
    pub fn run(names: &[String], rounds: usize, mut measure: impl FnMut(usize) -> Result<T>) -> Result<Rounds<T>> {
        let mut runs: Vec<Vec<T>> = names.iter().map(|_| Vec::with_capacity(rounds)).collect();
        let (progress, whole) = (Progress::new(), (names.len() * rounds) as f64);
        let mut done = 0.0;
        for round in 0..rounds {
            for step in 0..names.len() {
                child::go_on()?;
                let at = (round + step) % names.len();
                progress.tell(done, whole, &names[at]);
                runs[at].push(measure(at)?);
                done += 1.0;
            }
        }
        Ok(Rounds { runs })
    }

    /// Those of one, by round.
    pub fn of(&self, index: usize) -> &[T] {
        &self.runs[index]
    }

    /// A figure of each run of one, by round.
    pub fn figures(&self, index: usize, figure: impl Fn(&T) -> f64) -> Vec<f64> {
        self.runs[index].iter().map(figure).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_first_in_its_turn_and_keeps_its_runs() {
        let names = ["a", "b", "c"].map(str::to_owned);
        let mut order = Vec::new();
        let rounds = Rounds::run(&names, 3, |at| {
            order.push(at);
            Ok(order.len() as f64)
        });
        let rounds = rounds.expect("nothing fails");
        assert_eq!(order, [0, 1, 2, 1, 2, 0, 2, 0, 1]);
        assert_eq!((rounds.of(0), rounds.of(2)), (&[1.0, 6.0, 8.0][..], &[3.0, 5.0, 7.0][..]));
        assert_eq!(rounds.figures(1, |run| run + 0.5), [2.5, 4.5, 9.5]);
    }
}
