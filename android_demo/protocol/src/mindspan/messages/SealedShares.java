package mindspan.messages;

import mindspan.boxes.Bytes;
import mindspan.boxes.Seal;

/** 114 bytes: the box for one neighbour, and digests of the two shares in it. */
public record SealedShares(byte[] box, byte[] digestOfS, byte[] digestOfB) {
  public static final int DIGEST_SIZE = 16;

  public static SealedShares read(Reader in) throws Malformed {
    return new SealedShares(in.take(Seal.BOX_SIZE), in.take(DIGEST_SIZE), in.take(DIGEST_SIZE));
  }

  public byte[] bytes() {
    return Bytes.join(box, digestOfS, digestOfB);
  }
}
