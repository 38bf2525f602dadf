mod checksums;
mod crash;
mod damage;
mod lazy;
mod model;
mod recovery;
mod together;
mod writing;
