//! The orders of the epochs that are in use.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::error::Result;
use crate::sampler::{Order, Sampler};

/// Each order is made once, by the first thread that asks. Making one can take as long as shuffling
/// all samples, so the list is unlocked during that: threads that need another epoch continue.
pub(super) struct Orders {
    sampler: Arc<dyn Sampler>,
    epochs: Mutex<Vec<(u64, Arc<Made>)>>,
}

/// `None` if it could not be made.
type Made = OnceLock<Option<Arc<dyn Order>>>;

impl Orders {
    pub(super) fn new(sampler: Arc<dyn Sampler>) -> Orders {
        Orders { sampler, epochs: Mutex::default() }
    }

    /// The order of an epoch; waits while another thread makes it.
    pub(super) fn get(&self, epoch: u64) -> Result<Arc<dyn Order>> {
        let (made, _) = self.entry(epoch);
        match made.get_or_init(|| self.sampler.order(epoch).ok()) {
            Some(order) => Ok(order.clone()),
            // Errors cannot be cloned, but a sampler fails again for each caller.
            None => self.sampler.order(epoch),
        }
    }

    /// The order of an epoch if it is made.
    pub(super) fn made(&self, epoch: u64) -> Option<Arc<dyn Order>> {
        let epochs = self.epochs();
        let (_, made) = epochs.iter().find(|(known, _)| *known == epoch)?;
        made.get()?.clone()
    }

    /// Makes the order of an epoch that will be asked for, unless another thread is about to.
    pub(super) fn make(&self, epoch: u64) {
        let (made, new) = self.entry(epoch);
        if new {
            made.get_or_init(|| self.sampler.order(epoch).ok());
        }
    }

    /// Forgets the orders of earlier epochs.
    pub(super) fn forget_before(&self, epoch: u64) {
        self.epochs().retain(|(known, _)| *known >= epoch);
    }

    /// The entry of an epoch, and whether it is new.
    fn entry(&self, epoch: u64) -> (Arc<Made>, bool) {
        let mut epochs = self.epochs();
        if let Some((_, made)) = epochs.iter().find(|(known, _)| *known == epoch) {
            return (made.clone(), false);
        }
        let made = Arc::new(Made::new());
        epochs.push((epoch, made.clone()));
        (made, true)
    }

    fn epochs(&self) -> MutexGuard<'_, Vec<(u64, Arc<Made>)>> {
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
