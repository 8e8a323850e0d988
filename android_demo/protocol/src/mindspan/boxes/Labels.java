package mindspan.boxes;

import static java.nio.charset.StandardCharsets.US_ASCII;

/** Every label that separates one use of a key, hash or signature from all others. */
public final class Labels {
  public static final byte[] SESSION = label("fl-sa/1");
  public static final byte[] MODEL = label("fl-sa/1 model");
  public static final byte[] RING = label("fl-sa/1 ring\0");

  // Signatures of Ed25519.
  public static final byte[] ADVERT = label("fl-sa/1 advert");
  public static final byte[] AGREE = label("fl-sa/1 agree");
  public static final byte[] CERTIFICATE = label("fl-sa/1 certificate");
  public static final byte[] REVOCATION = label("fl-sa/1 revocation");
  public static final byte[] ENROL = label("fl-sa/1 enrolment");
  public static final byte[] REQUEST = label("fl-sa/1 request");

  // The info of HKDF.
  static final byte[] SHARE_KEY = label("share");
  static final byte[] MASK_KEY = label("mask");
  static final byte[] SELF_KEY = label("self");
  static final byte[] CHECKSUM_KEY = label("checksum");
  static final byte[] ROUNDING_KEY = label("rounding");
  static final byte[] VECTOR_NAME = label("update");

  // Hashes.
  public static final byte[] TOKEN = label("fl-sa/1 token");
  public static final byte[] COMMITMENT = label("fl-sa/1 commitment");
  public static final byte[] SHARE_DIGEST = label("fl-sa/1 share digest");
  public static final byte[] SHARED_SET = label("fl-sa/1 U2");
  public static final byte[] SURVIVOR_SET = label("fl-sa/1 U3");

  private Labels() {}

  private static byte[] label(String text) {
    return text.getBytes(US_ASCII);
  }
}
