//! Carrying out plans: slabs are made, data are moved, and slabs beyond the budget are spilled.

use std::sync::Arc;

use crate::array::grid::Touch;
use crate::array::operand::{Aimed, aim};
use crate::array::plan::{End, GetItemPlan, Move, Moves, Patch, Place, SlabInfo, SlabKind};
use crate::array::staged::array::StagedArray;
use crate::array::staged::slab::{Slab, Slots};
use crate::array::staged::spill::can_be_spilled;
use crate::array::transfer::{Program, Side, Source, c_steps, stage};
use crate::error::Result;

impl StagedArray {
    pub(super) fn run_get(&self, plan: &GetItemPlan<'_>, out: &mut [u8]) -> Result<()> {
        if plan.moves.transfers.is_empty() {
            return Ok(());
        }
        let whole = c_steps(plan.shape(), self.item());
        let (start, steps) = aim(&plan.out, &whole).expect("a result in C order");
        let to = Side { steps: &steps, chunked: false };
        let chunk = c_steps(self.chunk_shape(), self.item());
        let nothing = vec![0; chunk.len()];
        for transfer in &plan.moves.transfers {
            let End::Slab(slab) = transfer.from else { continue };
            let (source, steps) = match &self.slabs[slab as usize] {
                Slab::None => (Source::Flat(&self.fill, 0), &nothing),
                Slab::Base(base) => (Source::Base(&**base), &chunk),
                Slab::Staged(slots) => (Source::Slots(slots.bytes()), &chunk),
            };
            let touch = &plan.moves.touches[transfer.touch];
            let program = self.program(touch, &Side { steps, chunked: true }, &to);
            let moves = &plan.moves.moves[transfer.moves.clone()];
            program.to_array(moves, source, (&mut *out, start))?;
        }
        Ok(())
    }

    fn program<'a>(&self, touch: &'a Touch, from: &Side<'_>, to: &Side<'_>) -> Program<'a> {
        Program::new(touch, from, to, self.item(), self.layout.slot_bytes)
    }

    /// Moves the data of a plan, then applies its patch. If moving fails, the data that were moved
    /// are in slots that no chunk uses, or beyond the edge of the array.
    pub(super) fn carry_out(
        &mut self,
        moves: &Moves,
        patch: Patch,
        value: Option<&Aimed<'_>>,
    ) -> Result<()> {
        let before = self.slabs.len();
        let moved = self.new_slabs(&patch).and_then(|()| self.run(moves, value));
        if let Err(error) = moved {
            self.slabs.truncate(before);
            // Slots that the next plan gives away may be noted as copies.
            self.slabs.iter_mut().for_each(Slab::forget_copies);
            return Err(error);
        }
        self.changed |= !patch.append.is_empty() || !patch.places.is_empty();
        for &slab in &patch.drop {
            self.slabs[slab as usize] = Slab::None;
        }
        self.layout.apply(patch);
        if self.budget.is_some() {
            self.forget_spilled();
        }
        Ok(())
    }

    /// Moves slabs out of memory until the rest is within the budget.
    pub(super) fn spill(&mut self) -> Result<()> {
        let Some(budget) = self.budget.clone() else { return Ok(()) };
        let is_staged = |slab: &SlabInfo| slab.kind == SlabKind::Staged;
        while self.staged_bytes() > budget.bytes && can_be_spilled(self.layout.slot_bytes) {
            let Some(number) = self.layout.slabs.iter().position(is_staged) else { break };
            let Slab::Staged(slots) = &self.slabs[number] else { break };
            let here = self.layout.places.iter().filter(|place| place.slab as usize == number);
            let mut here: Vec<usize> = here.map(|place| place.slot as usize).collect();
            here.sort_unstable();
            let chunks: Vec<(usize, &[u8])> =
                here.iter().map(|&slot| (slot, slots.slot(slot))).collect();
            let spilled = budget.store.store(&chunks, self.item())?;
            self.slabs[number] = Slab::Base(spilled);
            self.layout.slabs[number].kind = SlabKind::Spilled;
        }
        self.forget_spilled();
        Ok(())
    }

    /// Drops spilled slabs that no chunk is on any more, and their files.
    fn forget_spilled(&mut self) {
        for (slab, info) in self.slabs.iter_mut().zip(&mut self.layout.slabs) {
            if info.kind == SlabKind::Spilled && info.live == 0 {
                info.kind = SlabKind::Dropped;
                *slab = Slab::None;
            }
        }
    }

    fn new_slabs(&mut self, patch: &Patch) -> Result<()> {
        for &slots in &patch.append {
            let slots = Slots::new(slots, self.layout.slot_bytes)?;
            self.slabs.push(Slab::Staged(Arc::new(slots)));
        }
        Ok(())
    }

    fn run(&mut self, moves: &Moves, value: Option<&Aimed<'_>>) -> Result<()> {
        let chunk = c_steps(self.chunk_shape(), self.item());
        let nothing = vec![0; chunk.len()];
        let to = Side { steps: &chunk, chunked: true };
        for transfer in &moves.transfers {
            let End::Slab(number) = transfer.to else { continue };
            let some = &moves.moves[transfer.moves.clone()];
            let touch = &moves.touches[transfer.touch];
            let mut slots = self.take(number);
            let to_slots = Arc::get_mut(&mut slots).expect("`take` copied it if it was shared");
            let done = match (transfer.from, value) {
                (End::Slab(slab), _) => match &self.slabs[slab as usize] {
                    Slab::Base(base) => {
                        let is_base = self.layout.slabs[slab as usize].kind == SlabKind::Base;
                        for one in some {
                            let from = is_base.then_some(Place { slab, slot: one.from });
                            to_slots.note_copy(one.to, from);
                        }
                        stage(some, &**base, to_slots.bytes_mut(), self.layout.slot_bytes)
                    }
                    _ => {
                        let from = Side { steps: &nothing, chunked: true };
                        let program = self.program(touch, &from, &to);
                        write(&program, some, Source::Flat(&self.fill, 0), to_slots)
                    }
                },
                (_, Some(value)) => {
                    let from = Side { steps: &value.steps, chunked: false };
                    let program = self.program(touch, &from, &to);
                    write(&program, some, Source::Flat(&value.bytes, value.start), to_slots)
                }
                (_, None) => Ok(()),
            };
            self.slabs[number as usize] = Slab::Staged(slots);
            done?;
        }
        Ok(())
    }

    /// Takes a staged slab out, to be written; copies it if another array shares it.
    fn take(&mut self, number: u32) -> Arc<Slots> {
        let slab = std::mem::replace(&mut self.slabs[number as usize], Slab::None);
        let Slab::Staged(mut slots) = slab else {
            unreachable!("plans write to staged slabs alone")
        };
        if Arc::get_mut(&mut slots).is_none() {
            let used = self.layout.slabs.get(number as usize).map_or(0, |slab| slab.used);
            slots = Arc::new(slots.copy(used));
        }
        slots
    }
}

/// Writes to chunks, and notes where.
fn write(program: &Program<'_>, some: &[Move], from: Source<'_>, slots: &mut Slots) -> Result<()> {
    if slots.takes_notes() {
        program.each_written(some, |one, bytes| slots.note_written(one.to, bytes));
    }
    program.to_slots(some, from, slots.bytes_mut())
}
