package mindspan.messages;

import java.util.List;
import mindspan.boxes.Ed25519;
import mindspan.boxes.Labels;

/** The authority's list of certificates that count no longer; its number only grows. */
public record Revocations(long number, List<Long> serials, byte[] signature) {
  public static Revocations read(Reader in) throws Malformed {
    return new Revocations(in.u64(), in.list(65535, Reader::u64), in.take(64));
  }

  public boolean isSignedBy(byte[] authority) {
    Writer list = new Writer().u64(number).u16(serials.size());
    serials.forEach(list::u64);
    return Ed25519.verifies(authority, Labels.REVOCATION, list.bytes(), signature);
  }
}
