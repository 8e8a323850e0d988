package mindspan.device;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import mindspan.boxes.Hashes;
import mindspan.boxes.Identity;
import mindspan.boxes.Labels;

/** Signed requests to the server, repeated with the same body until one of them is answered. */
final class Http {
  private static final Duration TIMEOUT = Duration.ofSeconds(90);
  private static final int PART_BYTES = 1 << 20;
  private static final int MOST_BYTES = 1 << 28;
  private static final long LEAST_WAIT_MS = 100;
  private static final long LONGEST_WAIT_MS = 3_600_000;

  private final HttpClient client =
      HttpClient.newBuilder()
          .version(HttpClient.Version.HTTP_1_1)
          .connectTimeout(Duration.ofSeconds(10))
          .build();
  private final String server;
  private final Identity identity;
  private final long patienceMs;
  private long clientId;
  private long counter;

  Http(String server, Identity identity, Duration patience) {
    this.server = server.replaceAll("/+$", "");
    this.identity = identity;
    this.patienceMs = patience.toMillis();
  }

  void isEnrolledAs(long id) {
    clientId = id;
  }

  /** The answer's body, null for 204. */
  byte[] call(String method, String path, byte[] body) throws IOException, InterruptedException {
    return body(answered(method, path, body, new String[0]));
  }

  /** The answer to a GET once there is one; the server says when to ask again. */
  byte[] poll(String path) throws IOException, InterruptedException {
    while (true) {
      long asked = System.nanoTime();
      HttpResponse<byte[]> response = answered("GET", path, new byte[0], new String[0]);
      if (response.statusCode() != 204) {
        return body(response);
      }
      pause(number(response, "x-retry-ms", 1000), asked);
    }
  }

  /** Waits as the server asked, but long enough that it is not asked without a pause. */
  void pause(long ms, long askedNanos) throws InterruptedException {
    long passed = (System.nanoTime() - askedNanos) / 1_000_000;
    Thread.sleep(Math.max(Math.min(ms, LONGEST_WAIT_MS), LEAST_WAIT_MS - passed));
  }

  /** PUTs a body, a large one in parts; after a loss it goes on from what the server has. */
  void upload(String path, byte[] body) throws IOException, InterruptedException {
    if (body.length <= PART_BYTES) {
      call("PUT", path, body);
      return;
    }
    String digest = Base64.getEncoder().encodeToString(Hashes.sha256(body));
    int first = 0;
    while (first < body.length) {
      int end = Math.min(first + PART_BYTES, body.length);
      String range = "bytes " + first + "-" + (end - 1) + "/" + body.length;
      String[] headers = {"content-range", range, "repr-digest", "sha-256=:" + digest + ":"};
      try {
        answered("PUT", path, Arrays.copyOfRange(body, first, end), headers);
        first = end;
      } catch (ServerRefused refused) {
        if (!refused.kind().equals("WrongOffset")) {
          throw refused;
        }
        HttpResponse<byte[]> there = answered("HEAD", path, new byte[0], new String[0]);
        int offset = (int) Math.min(number(there, "upload-offset", body.length), body.length);
        if (offset == first) {
          throw refused;
        }
        first = offset;
      }
    }
  }

  private HttpResponse<byte[]> answered(String method, String path, byte[] body, String[] headers)
      throws IOException, InterruptedException {
    long giveUp = System.nanoTime() + patienceMs * 1_000_000;
    for (long wait = 50; ; wait = Math.min(2 * wait, 5000)) {
      String why;
      try {
        HttpResponse<byte[]> response = send(method, path, body, headers);
        if (response.statusCode() < 400) {
          return response;
        }
        why = new String(response.body(), UTF_8).strip();
        if (response.statusCode() < 500) {
          throw new ServerRefused(response.statusCode(), why.isEmpty() ? "refused" : why);
        }
      } catch (ServerRefused refused) {
        throw refused;
      } catch (IOException lost) {
        why = String.valueOf(lost.getMessage());
      }
      if (System.nanoTime() + wait * 1_000_000 > giveUp) {
        throw new IOException("no answer within " + patienceMs + " ms: " + why);
      }
      Thread.sleep(wait);
    }
  }

  private HttpResponse<byte[]> send(String method, String path, byte[] body, String[] headers)
      throws IOException, InterruptedException {
    HttpResponse<byte[]> response = sendOnce(method, path, body, headers);
    boolean stale = response.headers().firstValue("x-last-counter").isPresent();
    if (response.statusCode() == 401 && stale) {
      // The clock went back, or a repeated request overtook this one.
      counter = number(response, "x-last-counter", 0);
      response = sendOnce(method, path, body, headers);
    }
    return response;
  }

  private HttpResponse<byte[]> sendOnce(String method, String path, byte[] body, String[] headers)
      throws IOException, InterruptedException {
    HttpRequest.Builder request =
        HttpRequest.newBuilder(URI.create(server + path))
            .timeout(TIMEOUT)
            .header("content-type", "application/x-mindspan")
            .method(method, BodyPublishers.ofByteArray(body));
    StringBuilder ranges = new StringBuilder();
    for (int i = 0; i < headers.length; i += 2) {
      request.header(headers[i], headers[i + 1]);
      ranges.append('\n').append(headers[i + 1]);
    }
    if (!path.equals("/enrol")) {
      // Time makes the counter grow over restarts too, without a file.
      counter = Math.max(counter + 1, System.currentTimeMillis() * 1_000_000);
      String hash = HexFormat.of().formatHex(Hashes.sha256(body));
      String signed = method + " " + path + "\n" + counter + "\n" + hash + ranges;
      byte[] signature = identity.sign(Labels.REQUEST, signed.getBytes(UTF_8));
      String proof = HexFormat.of().formatHex(signature);
      request.header("authorization", "MS1 " + clientId + " " + counter + " " + proof);
    }
    return client.send(request.build(), new Bounded());
  }

  private static byte[] body(HttpResponse<byte[]> response) {
    return response.statusCode() == 204 ? null : response.body();
  }

  private static long number(HttpResponse<byte[]> response, String header, long missing)
      throws IOException {
    String text = response.headers().firstValue(header).orElse(Long.toString(missing));
    if (!text.matches("[0-9]{1,18}|[0-8][0-9]{18}")) {
      throw new IOException(header + " is no whole number");
    }
    return Long.parseLong(text);
  }

  /** A body handler that gives up on an answer which would fill the memory. */
  private static final class Bounded implements HttpResponse.BodyHandler<byte[]> {
    @Override
    public HttpResponse.BodySubscriber<byte[]> apply(HttpResponse.ResponseInfo info) {
      return HttpResponse.BodySubscribers.mapping(
          BodyHandlers.ofInputStream().apply(info), Bounded::read);
    }

    private static byte[] read(InputStream stream) {
      try (stream) {
        byte[] bytes = stream.readNBytes(MOST_BYTES + 1);
        if (bytes.length > MOST_BYTES) {
          throw new IOException("the answer has more than " + MOST_BYTES + " bytes");
        }
        return bytes;
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }
}
