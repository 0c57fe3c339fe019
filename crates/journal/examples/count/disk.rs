//! A disk that takes everything and keeps nothing.

use std::io;
use std::sync::Arc;

use journal::{Disk, DiskFile, Lock};

#[derive(Debug)]
pub(crate) struct Void;

impl Disk for Void {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn open(&self, _name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn create(&self, _name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(Self))
    }

    fn remove(&self, _name: &str) -> io::Result<()> {
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self) -> io::Result<Option<Lock>> {
        Ok(Some(Box::new(())))
    }
}

impl DiskFile for Void {
    fn size(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn read_at(&self, _offset: u64, _buffer: &mut [u8]) -> io::Result<()> {
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
