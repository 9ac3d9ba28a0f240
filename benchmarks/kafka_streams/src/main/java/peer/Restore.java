package peer;

import io.vertx.core.Vertx;
import io.vertx.core.buffer.Buffer;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/**
 * Restores a topic as a table into RocksDB, says how long that took, and with a port serves point reads over HTTP until
 * standard input closes.
 *
 * <p>Arguments: bootstrap servers, topic, state directory, port (0: don't serve). Prints one JSON line:
 * {"records": N, "millis": T}, where T runs from the first restore event to the last.
 */
public final class Restore {
  private Restore() {}

  /** Counts what is restored, from the first event to the last. */
  private static final class Progress implements StateRestoreListener {
    private long startedAt;
    private long endedAt;
    private long records;

    @Override
    public synchronized void onRestoreStart(TopicPartition partition, String store, long from, long to) {
      if (startedAt == 0) {
        startedAt = System.currentTimeMillis();
      }
    }

    @Override
    public void onBatchRestored(TopicPartition partition, String store, long end, long count) {}

    @Override
    public synchronized void onRestoreEnd(TopicPartition partition, String store, long total) {
      endedAt = System.currentTimeMillis();
      records += total;
    }

    synchronized String asJson() {
      return "{\"records\": " + records + ", \"millis\": " + (endedAt - startedAt) + "}";
    }
  }

  /** Runs the peer; see the class comment for the arguments. */
  public static void main(String[] args) throws Exception {
    String topic = args[1];
    int port = Integer.parseInt(args[3]);
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "restore-peer-" + System.currentTimeMillis());
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, args[2]);
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, "2");
    settings.put("auto.offset.reset", "earliest");
    settings.put("restore.consumer.max.poll.records", "10000");
    settings.put("global.consumer.max.poll.records", "10000");

    StreamsBuilder builder = new StreamsBuilder();
    builder.globalTable(
        topic,
        Consumed.with(Serdes.Bytes(), Serdes.Bytes()),
        Materialized.<Bytes, Bytes, KeyValueStore<Bytes, byte[]>>as("restored"));
    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    Progress progress = new Progress();
    CountDownLatch running = new CountDownLatch(1);
    streams.setGlobalStateRestoreListener(progress);
    streams.setStateListener(
        (now, before) -> {
          if (now == KafkaStreams.State.RUNNING) {
            running.countDown();
          }
        });
    streams.start();
    running.await();
    System.out.println(progress.asJson());
    System.out.flush();
    if (port != 0) {
      serve(streams, port);
    }
    streams.close();
    System.exit(0);
  }

  private static void serve(KafkaStreams streams, int port) throws Exception {
    ReadOnlyKeyValueStore<Bytes, Bytes> store =
        streams.store(StoreQueryParameters.fromNameAndType("restored", QueryableStoreTypes.keyValueStore()));
    Vertx.vertx()
        .createHttpServer()
        .requestHandler(
            request -> {
              String key = request.path().substring(request.path().lastIndexOf('/') + 1);
              Bytes value = store.get(Bytes.wrap(key.getBytes(StandardCharsets.UTF_8)));
              if (value == null) {
                request.response().setStatusCode(404).end();
              } else {
                request.response().putHeader("Content-Type", "application/json").end(Buffer.buffer(value.get()));
              }
            })
        .listen(port, "127.0.0.1");
    while (System.in.read() != -1) {
      // Serve until the benchmark closes our standard input.
    }
  }
}
