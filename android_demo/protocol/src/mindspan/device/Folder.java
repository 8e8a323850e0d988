package mindspan.device;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;

/** A device's folder, held by one device at a time; files in it are whole or as they were. */
final class Folder implements AutoCloseable {
  private final Path path;
  private final FileChannel lock;

  Folder(Path path) throws IOException {
    this.path = path;
    Files.createDirectories(path);
    lock = open(path.resolve("lock"));
    FileLock held = null;
    try {
      held = lock.tryLock();
    } catch (OverlappingFileLockException e) {
      // another device of this process
    }
    if (held == null) {
      lock.close();
      throw new IOException(path + " is in use by another device");
    }
  }

  /** The bytes of a file, null if there is none. */
  byte[] read(String name) {
    Path file = path.resolve(name);
    try {
      return Files.exists(file) ? Files.readAllBytes(file) : null;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Has the bytes on the disk when it returns; only the owner may read them. */
  void write(String name, byte[] bytes) {
    Path beside = path.resolve(name + ".new");
    try {
      Files.deleteIfExists(beside);
      try (FileChannel out = open(beside)) {
        beside.toFile().setReadable(false, false);
        beside.toFile().setReadable(true, true);
        out.write(ByteBuffer.wrap(bytes));
        out.force(true);
      }
      Files.move(beside, path.resolve(name), StandardCopyOption.ATOMIC_MOVE);
      try (FileChannel names = FileChannel.open(path, StandardOpenOption.READ)) {
        names.force(true);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public void close() throws IOException {
    lock.close();
  }

  private static FileChannel open(Path file) throws IOException {
    return FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
  }
}
