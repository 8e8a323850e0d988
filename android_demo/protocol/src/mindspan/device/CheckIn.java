package mindspan.device;

import mindspan.messages.Malformed;
import mindspan.messages.Reader;
import mindspan.messages.Writer;

/** The answer to a check-in. */
record CheckIn(int kind, long retryMs, byte[] body) {
  static final int OFFER = 1;
  static final int SESSION = 2;
  static final int IDLE = 3;
  private static final int MOST_BODY = 1024;

  /** Asks for work (round 0, no advert), or joins the round that was offered with an advert. */
  static byte[] request(String task, long round, byte[] advert) {
    return new Writer().text(task).u64(round).sized(advert).bytes();
  }

  static CheckIn parse(byte[] bytes) throws Malformed {
    Reader in = new Reader(bytes, "check-in");
    CheckIn reply = new CheckIn(in.u8(), in.u32(), in.sized(MOST_BODY));
    in.done();
    return reply;
  }
}
