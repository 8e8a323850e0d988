package mindspan.messages;

import mindspan.boxes.Bytes;
import mindspan.boxes.Ed25519;
import mindspan.boxes.Labels;

/** What the enrolment authority signs: who a client is. Times are seconds since 1970. */
public record Certificate(
    long serial,
    long client,
    byte[] publicKey,
    long notBefore,
    long notAfter,
    String tenant,
    String population,
    byte[] signature) {
  public static Certificate read(Reader in) throws Malformed {
    return new Certificate(
        in.u64(), in.u32(), in.take(32), in.u64(), in.u64(), in.text(), in.text(), in.take(64));
  }

  public byte[] bytes() {
    return Bytes.join(subject(), signature);
  }

  public boolean isSignedBy(byte[] authority) {
    return Ed25519.verifies(authority, Labels.CERTIFICATE, subject(), signature);
  }

  private byte[] subject() {
    Writer out = new Writer().u64(serial).u32(client).put(publicKey);
    return out.u64(notBefore).u64(notAfter).text(tenant).text(population).bytes();
  }
}
